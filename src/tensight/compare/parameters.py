"""The parameters of two models side by side, of one or two frameworks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from tensight.compare.checkpoints import Checkpoint, guessed
from tensight.compare.checkpoints.convert import candidates_for, mapped_name, network_part
from tensight.records import Network

Shape = tuple[int, ...]


class Listed(msgspec.Struct, frozen=True):
    """The parameters and buffers of one model: their shapes, and which of them are trained, where that is known."""

    framework: str
    shapes: dict[str, Shape]
    trainable: dict[str, bool | None]

    @property
    def total(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())


class Row(msgspec.Struct, frozen=True):
    """A parameter of A and its counterpart in B; one of the two may be missing."""

    a: str | None
    b: str | None
    shape_a: Shape | None
    shape_b: Shape | None
    verdict: str  # 'same' | 'layout' (as the rules of the frameworks have it) | 'shape' | 'only_a' | 'only_b'
    trainable_differs: bool = False
    rule: str = ""


class SideBySide(msgspec.Struct, frozen=True):
    """All parameters of both, and their numbers."""

    rows: list[Row]
    total_a: int
    total_b: int

    @property
    def same(self) -> bool:
        return all(row.verdict in ("same", "layout") and not row.trainable_differs for row in self.rows)


def of_networks(networks: list[Network], framework: str) -> Listed:
    """The models of a run; names of a second model stand under its own."""
    shapes: dict[str, Shape] = {}
    trainable: dict[str, bool | None] = {}
    for number, network in enumerate(networks):
        for parameter in network.parameters:
            if not parameter.tied_to:
                name = parameter.name if not number else f"{network.name}:{parameter.name}"
                shapes[name] = parameter.shape
                trainable[name] = parameter.trainable and not parameter.buffer
    return Listed(guessed(shapes) or framework, shapes, trainable)


def of_checkpoint(checkpoint: Checkpoint) -> Listed:
    """The network's own tensors of a checkpoint."""
    own = network_part(checkpoint)[0]
    return Listed(
        checkpoint.framework,
        {name: entry.shape for name, entry in own.items()},
        {name: entry.trainable for name, entry in own.items()},
    )


def side_by_side(a: Listed, b: Listed, mapping: Mapping[str, str] | None = None) -> SideBySide:
    """Pair the parameters of two models by a mapping, their names, and the rules of the frameworks.

    >>> torch = Listed("torch", {"bn.weight": (8,), "bn.running_mean": (8,)}, {})
    >>> ported = Listed("mindspore", {"bn.gamma": (8,), "bn.moving_mean": (8,)}, {})
    >>> [(row.a, row.b, row.verdict) for row in side_by_side(torch, ported).rows]
    [('bn.weight', 'bn.gamma', 'same'), ('bn.running_mean', 'bn.moving_mean', 'same')]
    """
    moved = {}
    for name in a.shapes:
        said = mapped_name(name, mapping or {})
        moved[name] = name if said is None else said[0]
    candidates = candidates_for({moved[name]: shape for name, shape in a.shapes.items()}, a.framework, b.framework)
    left = dict(b.shapes)
    rows: list[Row] = []
    for name, shape in a.shapes.items():
        fitting = [target for target in candidates[moved[name]] if target.name in left]
        if moved[name] in left and not fitting:
            fitting = [candidates[moved[name]][0]._replace(name=moved[name], shape=shape)]
        best = next((target for target in fitting if left[str(target.name)] == target.shape), None)
        best = best or (fitting[0] if fitting else None)
        if best is None or best.name is None:
            why = candidates[moved[name]][0].rule if candidates[moved[name]][0].name is None else ""
            rows.append(Row(name, None, shape, None, "only_a", rule=why))
            continue
        theirs = left.pop(best.name)
        verdict = "shape" if theirs != best.shape else "same" if theirs == shape else "layout"
        ours_trained, theirs_trained = a.trainable.get(name), b.trainable.get(best.name)
        differs = None not in (ours_trained, theirs_trained) and ours_trained != theirs_trained
        rows.append(Row(name, best.name, shape, theirs, verdict, differs, best.rule))
    rows += [Row(None, name, None, shape, "only_b") for name, shape in left.items()]
    return SideBySide(rows, a.total, b.total)
