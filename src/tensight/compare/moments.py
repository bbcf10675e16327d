"""A step of two runs side by side: the tensors that both looked at, in order of execution."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tensight.compare import words
from tensight.compare.alignment import Alignment
from tensight.compare.joining import fitting
from tensight.compare.sides import Side
from tensight.records import Observation, Stats, TensorInfo

PARAMETERS = ("weight", "frozen", "buffer")
_KINDS = frozenset(
    (
        *("input", "target", "output", "activation", "module_input", "loss", "output_gradient", "input_gradient"),
        *("gradient", *PARAMETERS),
    )
)
_OPERATORS = frozenset(("operator", "operator_gradient"))
Key = tuple[str, str, str, int, int, str]


class Moment(msgspec.Struct, frozen=True):
    """One tensor of a step as both runs saw it. `stage` is what was going on: see `STAGES`."""

    a: TensorInfo
    b: TensorInfo
    stats_a: Stats
    stats_b: Stats
    step: int
    stage: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    pieces: bool = False  # put together of what several ranks or micro-steps saw

    @property
    def module(self) -> str:
        return self.a.node

    @property
    def same(self) -> bool:
        """Whether both saw the same to the last bit; a statistic that is NaN, as of values too large to add up, is."""
        return self.stats_a == self.stats_b or repr(self.stats_a) == repr(self.stats_b)


STAGES = ("start", "input", "forward", "backward", "update")


def key_of(info: TensorInfo, seen: Observation, path: str, *, operators: bool = False) -> Key | None:
    """What a tensor is known by in both runs; None for what is not compared. `operators`: they alone are there."""
    if info.kind not in (_OPERATORS if operators else _KINDS):
        return None
    if operators and "empty" in info.op:
        return None  # what `empty` gives was not written yet
    kind: str = info.kind
    slot = info.slot
    if operators:
        slot = f"{info.op}.{slot}"
    elif kind in PARAMETERS:
        kind, slot = "parameter", words.slot_of(slot)
    elif kind == "gradient":
        slot = words.slot_of(slot)
    elif kind == "activation":
        kind = "output"
    elif kind in ("target", "loss"):
        slot = kind
    phase = "update" if seen.phase == "update" else ""
    return kind, path, slot, info.call, seen.micro, phase


def stage_of(info: TensorInfo, seen: Observation) -> str:
    """What was going on when a tensor was looked at."""
    if info.kind in PARAMETERS:
        return "update" if seen.phase == "update" else "start"
    if info.kind in ("input", "target"):
        return "input"
    return "backward" if "gradient" in info.kind else "forward"


def has_tensors(side: Side, step: int, *, operators: bool = False) -> bool:
    """Whether a step of a run holds anything that could be compared, whatever the other run has."""
    seen_of = side.observations(step)
    return any(key_of(info, seen, info.node, operators=operators) is not None for info, seen in seen_of)


def of_step(a: Side, b: Side, step: int, alignment: Alignment, *, operators: bool = False) -> Iterator[Moment]:
    """The moments of a step, in the order of `a`, stage by stage.

    `operators`: of dumps that hold what operators gave, and nothing of modules.
    Where one side has other ranks or micro-steps than the other, what they saw in pieces is put together.
    """
    apart = len(a.readers) != len(b.readers) or a.micros(step) != b.micros(step)
    theirs: dict[Key, _Seen] = {}
    for info, seen in b.observations(step):
        path = alignment.from_b.get(info.node)
        key = key_of(info, seen, path, operators=operators) if path is not None else None
        if key is not None:
            theirs.setdefault(_loose(key) if apart else key, _Seen(info, seen)).add(seen)
    ours: dict[Key, _Seen] = {}
    for info, seen in a.observations(step):
        key = key_of(info, seen, info.node, operators=operators)
        if key is not None:
            ours.setdefault(_loose(key) if apart else key, _Seen(info, seen)).add(seen)
    found: list[tuple[int, int, Moment]] = []
    for key, one in ours.items():
        other = theirs.get(key)
        if other is None or (apart and one.info.kind == "loss"):
            continue
        stats_a, stats_b = one.stats, other.stats
        pieces = False
        if apart:
            stats_a, stats_b = fitting(one.pieces, other.pieces)
            pieces = stats_a is not one.pieces[0] or stats_b is not other.pieces[0]
        stage = stage_of(one.info, one.first)
        shape_a, shape_b = one.first.shape or one.info.shape, other.first.shape or other.info.shape
        moment = Moment(one.info, other.info, stats_a, stats_b, step, stage, shape_a, shape_b, pieces)
        found.append((STAGES.index(stage), one.first.order, moment))
    found.sort(key=lambda row: row[:2])
    yield from (moment for _, _, moment in found)


def _loose(key: Key) -> Key:
    kind, path, slot, call, _, phase = key
    return kind, path, slot, call, 0, phase


class _Seen:
    """All that was seen of one tensor in a step."""

    def __init__(self, info: TensorInfo, first: Observation) -> None:
        self.info = info
        self.first = first
        self._all: list[Observation] = []

    def add(self, seen: Observation) -> None:
        self._all.append(seen)

    @property
    def stats(self) -> Stats:
        return self._all[-1].stats

    @property
    def pieces(self) -> list[Stats]:
        """What may be put together; a gradient adds up by itself, so the last one is the whole."""
        if self.info.kind == "gradient" or self.info.kind in PARAMETERS:
            return [self.stats]
        return [seen.stats for seen in self._all]
