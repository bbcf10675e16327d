"""A tensor that several ranks hold in parts, put together when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensight.errors import NameNotFound
from tensight.records import Stats, TensorInfo
from tensight.runs.tensor import find
from tensight.stats.joining import joined
from tensight.store import Reader

_HELD = ("weight", "frozen", "buffer", "gradient")  # what a rank holds beside its share of the batch


@dataclass(frozen=True)
class Whole:
    """Statistics of a tensor over all ranks. `pieces` has what each rank saw, `missing` the ranks that saw nothing.

    `stats` is None while a part is missing, and where ranks hold summands: of these only the sum tells something.
    """

    name: str
    step: int
    shape: tuple[int, ...]
    stats: Stats | None
    pieces: Mapping[int, Stats]
    missing: tuple[int, ...] = ()
    note: str = ""


def whole(
    readers: Mapping[int, Reader],
    node: str,
    slot: str,
    step: int,
    *,
    kind: str | None = None,
    network: str | None = None,
    call: int | None = None,
) -> Whole:
    """Put together what ranks saw of one tensor in one step: each part once, replicas stand for each other."""
    found: dict[int, TensorInfo] = {}
    for rank, reader in readers.items():
        matches = find(reader.tensors, node, slot, kind=kind, network=network, call=call)
        if matches:
            found[rank] = matches[0]
    if not found:
        raise NameNotFound(f"no rank has a tensor {slot} of {node}")
    pieces: dict[int, Stats] = {}
    parts: dict[object, Stats] = {}
    missing: list[int] = []
    for rank, info in found.items():
        stats = _seen(readers[rank], info, step)
        if stats is None:
            if info.shard is None or 0 not in info.shape:
                missing.append(rank)
            continue
        pieces[rank] = stats
        parts.setdefault(_part(rank, info), stats)
    first = next(iter(found.values()))
    shape = first.shard.shape if first.shard is not None else first.shape
    together: Stats | None = joined(list(parts.values())) if parts else None
    note = ""
    if first.shard is not None and first.shard.partial:
        together, note = None, "each rank holds a summand: put together they are no part of the tensor"
    elif first.shard is not None and (together is None or together.count != _count(shape)):
        count = 0 if together is None else together.count
        together, note = None, f"{count} of {_count(shape)} values were seen"
    return Whole(first.name, step, shape, together, pieces, tuple(missing), note)


def _part(rank: int, info: TensorInfo) -> object:
    """What tells parts apart: the place in the mesh, or the rank where each saw its own part of the batch."""
    if info.shard is not None:
        return info.shard.part
    return 0 if info.kind in _HELD else rank


def _seen(reader: Reader, info: TensorInfo, step: int) -> Stats | None:
    if not reader.steps.has(step):
        return None
    seen = reader.steps.some(step, frozenset((info.id,))).observations
    return seen[-1].stats if seen and seen[-1].error is None else None


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count
