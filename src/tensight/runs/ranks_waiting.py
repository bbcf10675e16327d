"""Ranks that wait for each other in different places: one has made fewer steps, or they call different collectives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tensight.errors import TensightError
from tensight.records import Evidence, Finding, Where
from tensight.runs import beats
from tensight.store import Reader

_WAITS = ("distributed", "autograd")  # operations in which a rank may wait for others
_GAVE_UP = re.compile(r"timed? ?out|connection (closed|reset|refused)|closed by peer|gloo|nccl|c10d", re.I)


class Place(NamedTuple):
    """Where a rank waits, or waited when it gave up."""

    rank: int
    step: int
    file: str
    line: int
    code: str
    inside: bool  # between the lines that its steps were made of

    def __str__(self) -> str:
        return f"{self.code or 'a call'} ({Path(self.file).name}:{self.line})" if self.line else "its end"


def waiting_apart(readers: Mapping[int, Reader], folder: Path) -> list[Finding]:
    """A finding when every rank that has trained waits, and not all of them in the same line."""
    trained = {rank: reader for rank, reader in readers.items() if len(reader.steps)}
    if len(trained) < 2:
        return []
    places = [place for rank, reader in trained.items() if (place := _place(rank, reader, folder)) is not None]
    if len(places) < len(trained) or len({(place.file, place.line) for place in places}) < 2:
        return []
    inside = [place for place in places if place.inside]
    return [_say(places, inside or places, _batches(trained))]


def _place(rank: int, reader: Reader, folder: Path) -> Place | None:
    step = reader.steps.numbers[-1] + 1
    lines = _lines(reader)
    crash = reader.crash
    if crash is not None:
        at = crash.get("where")
        if not isinstance(at, Mapping) or not at.get("line") or not _GAVE_UP.search(str(crash.get("error", ""))):
            return None
        file, line, code = str(at.get("file")), int(at["line"]), str(at.get("code") or "")
        return Place(rank, step, file, line, code, _within(line, lines))
    try:
        beat = beats.read(folder, rank)
    except TensightError:
        return None
    if beat is None or beat.paused or not any(word in beat.operation for word in _WAITS):
        end = reader.end
        over = end is not None and end.ended == "finished" and end.script_exit == 0
        return Place(rank, step, "", 0, "", False) if over else None
    file, _, line_word = beat.place.rpartition(":")
    if not line_word.isdecimal():
        return None
    return Place(rank, step, file, int(line_word), beat.code, _within(int(line_word), lines))


def _lines(reader: Reader) -> list[int]:
    """The lines of the user's that its last steps were made of."""
    found: list[int] = []
    for step in reader.steps.numbers[-3:]:
        found += [event.source.line for event in reader.steps.head(step).events if event.source is not None]
    return found


def _within(line: int, lines: list[int]) -> bool:
    return bool(lines) and min(lines) <= line <= max(lines)


def _batches(readers: Mapping[int, Reader]) -> dict[int, int]:
    """How many batches an epoch of each rank has, where they are not the same."""
    found: dict[int, int] = {}
    for rank, reader in readers.items():
        for part in reader.parts:
            count = part.settings.get("batches") if part.kind == "loader" else None
            if isinstance(count, int):
                found.setdefault(rank, count)
    return found if len(found) == len(readers) and len(set(found.values())) > 1 else {}


def _say(places: list[Place], inside: list[Place], batches: Mapping[int, int]) -> Finding:
    unequal = bool(batches) or 0 < len(inside) < len(places)
    first = inside[0]
    told = "; ".join(f"rank {place.rank} in {place}" for place in places)
    left = [place for place in places if place not in inside]
    gone = f" Rank {left[0].rank} has left its training loop after {left[0].step} steps." if left else ""
    counted = ", ".join(f"{count} on rank {rank}" for rank, count in batches.items())
    shared = f" An epoch has {counted} batches." if batches else ""
    return Finding(
        fault="unequal_steps" if unequal else "collectives_out_of_order",
        category="distributed",
        title=(
            "ranks do not make the same number of steps: those with more wait in vain"
            if unequal
            else "ranks wait for each other in different places"
        ),
        confidence=0.88 if unequal else 0.8,
        since_step=first.step,
        where=Where(op="collective", file=first.file, line=first.line, code=first.code or None),
        why=f"after {first.step} steps every rank waits for the others, and not in the same call: {told}.{gone}{shared}"
        " A collective ends only when every process calls it: where one has fewer batches, the others wait until they"
        " time out",
        evidence=tuple(Evidence(f"rank {place.rank} waits in", str(place), place.step) for place in places),
        fix=(
            "give every rank the same number of batches: DistributedSampler, or drop_last=True",
            "let ranks with fewer finish: with ddp.join(): around the loop",
        )
        if unequal
        else ("call the same collectives in the same order on every rank",),
        confirm=("print the number of batches on every rank before training",),
    )
