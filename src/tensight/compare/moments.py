"""A step of two runs side by side: the tensors that both looked at, in order of execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tensight.compare import words
from tensight.compare.alignment import Alignment
from tensight.records import Observation, Stats, StepRecord, TensorInfo
from tensight.store import Reader

PARAMETERS = ("weight", "frozen", "buffer")
_KINDS = frozenset(
    (
        *("input", "target", "output", "activation", "module_input", "loss", "output_gradient", "input_gradient"),
        *("gradient", *PARAMETERS),
    )
)
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

    @property
    def module(self) -> str:
        return self.a.node


STAGES = ("start", "input", "forward", "backward", "update")


def key_of(info: TensorInfo, seen: Observation, path: str) -> Key | None:
    """What a tensor is known by in both runs; None for what is not compared."""
    if info.kind not in _KINDS:
        return None
    kind: str = info.kind
    slot = info.slot
    if kind in PARAMETERS:
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


def of_step(a: Reader, b: Reader, step: int, alignment: Alignment) -> Iterator[Moment]:
    """The moments of a step, in the order of `a`, stage by stage."""
    theirs: dict[Key, tuple[TensorInfo, Observation]] = {}
    for info, seen in _observations(b, b.steps.at(step)):
        path = alignment.from_b.get(info.node)
        key = key_of(info, seen, path) if path is not None else None
        if key is not None:
            theirs[key] = (info, seen)
    found: list[tuple[int, int, Moment]] = []
    for info, seen in _observations(a, a.steps.at(step)):
        key = key_of(info, seen, info.node)
        other = theirs.get(key) if key is not None else None
        if other is None:
            continue
        info_b, seen_b = other
        stage = stage_of(info, seen)
        moment = Moment(
            info, info_b, seen.stats, seen_b.stats, step, stage, seen.shape or info.shape, seen_b.shape or info_b.shape
        )
        found.append((STAGES.index(stage), seen.order, moment))
    found.sort(key=lambda row: row[:2])
    yield from (moment for _, _, moment in found)


def _observations(reader: Reader, record: StepRecord) -> Iterator[tuple[TensorInfo, Observation]]:
    tensors: Mapping[int, TensorInfo] = reader.tensors
    for seen in record.observations:
        info = tensors.get(seen.tensor)
        if info is not None and seen.error is None:
            yield info, seen
