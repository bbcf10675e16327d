"""Tensors of which a rank holds a part: DTensors, as FSDP2 and tensor parallelism make them.

An operation on a DTensor may communicate, and a probe that communicates on one rank alone would hang all of them. So
probes work on what this rank holds, and what the part is of is told beside it.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from tensight.records import Shard

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a tensor; the tensor itself where that is all of it."""
    if type(tensor) in PLAIN:
        return tensor
    part = getattr(tensor, "_local_tensor", None)
    if isinstance(part, torch.Tensor):
        tensor = part
    return arrived(tensor)


def whole(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor as a plain one, where this rank holds all of it; None otherwise."""
    shard = shard_of(tensor)
    if shard is not None and any(placement != "R" for placement in shard.placements):
        return None
    found = local(tensor)
    return found if type(found) in PLAIN else None


def arrived(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor that another rank sends: its first use waits for them, and so do we.

    The collective has begun on every rank already: waiting starts none.
    """
    kind = getattr(sys.modules.get("torch.distributed._functional_collectives"), "AsyncCollectiveTensor", None)
    if kind is not None and type(tensor) is kind:
        found: torch.Tensor = tensor.trigger_wait()
        return found
    return tensor


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """Of what a DTensor's part is a part, and where; None for other tensors."""
    if type(tensor) in PLAIN:
        return None
    spec = getattr(tensor, "_spec", None)
    mesh = getattr(spec, "mesh", None)
    if spec is None or mesh is None or not hasattr(tensor, "_local_tensor"):
        return None
    at = mesh.get_coordinate()
    placements = tuple(_word(one) for one in spec.placements)
    return Shard(
        shape=tuple(tensor.shape),
        placements=placements,
        mesh=tuple(mesh.shape),
        names=tuple(mesh.mesh_dim_names or ()),
        at=() if at is None else tuple(int(place) for place in at),
        ranks=() if at is None else _holders(mesh, placements, at),
    )


def _word(placement: Any) -> str:
    text = str(placement)
    return text if len(text) < 40 else type(placement).__name__


def _holders(mesh: Any, placements: tuple[str, ...], at: Any) -> tuple[int, ...]:
    """The ranks that hold the very same part: all along those dimensions of the mesh where the tensor is whole."""
    ranks = mesh.mesh  # a plain tensor of numbers on the CPU
    for dimension in reversed(range(len(placements))):
        if placements[dimension] != "R":
            ranks = ranks.select(dimension, int(at[dimension]))
    return tuple(int(rank) for rank in ranks.reshape(-1).tolist())


def type_name(module: torch.nn.Module) -> str:
    """The name of a module's class; `fully_shard` puts one of its own in its place."""
    kind = type(module)
    bases = kind.__bases__
    if len(bases) == 2 and bases[0].__name__ == "FSDPModule" and kind.__name__ == f"FSDP{bases[1].__name__}":
        kind = bases[1]
    return kind.__name__
