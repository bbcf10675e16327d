"""Conditions judged on a recorded run by many workers: the same hits, in the same order, as by one process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tensight.records import Hit, Watchpoint
from tensight.runs import foreign
from tensight.runs.recheck import Counted, asks_for_values, count_kept, in_order, recheck_rank
from tensight.store import Reader, is_run, layout
from tensight.workers import Workers, batches

BATCH = 64 << 20  # bytes of kept tensors in one task


class CountTask(NamedTuple):
    """Kept tensors of some steps of one rank, to be counted in ranges."""

    folder: str
    rank: int
    steps: tuple[int, ...]
    watchpoints: tuple[Watchpoint, ...]


class CheckTask(NamedTuple):
    """One rank, to be judged."""

    folder: str
    rank: int
    watchpoints: tuple[Watchpoint, ...]
    step: int | range | None
    counted: Counted


def recheck_by(
    workers: Workers, readers: Sequence[Reader], watchpoints: Sequence[Watchpoint], step: int | range | None
) -> list[Hit]:
    """Every hit of the watchpoints, in order of step, rank and execution.

    First kept values are read where a watchpoint asks for them, in tasks of some steps each; that is where the bytes
    are. Then each rank is judged as a whole, since conditions remember earlier steps.
    """
    if not readers:
        return []
    points = tuple(watchpoints)
    folder = readers[0].folder
    counted: dict[int, Counted] = {reader.rank: {} for reader in readers}
    counts = list(_count_tasks(readers, points))
    for task, found in zip(counts, workers.map(_count, counts, paths=[folder])):
        counted[task.rank].update(found)
    path = os.path.abspath(folder)
    checks = [CheckTask(path, reader.rank, points, step, counted[reader.rank]) for reader in readers]
    return in_order(hit for hits in workers.map(_check, checks, paths=[folder]) for hit in hits)


def prepare(path: str | Path, workers: Workers) -> None:
    """Have workers read a dump, so that opening it as a run is quick; a run needs nothing."""
    if Path(path).is_dir() and not is_run(Path(path)):
        foreign.run_of(Path(path), workers)


def _count_tasks(readers: Sequence[Reader], points: tuple[Watchpoint, ...]) -> Iterator[CountTask]:
    for reader in readers:
        if not asks_for_values(reader, points):
            continue
        there = [number for number in sorted(reader.kept) if reader.steps.has(number)]
        for steps in batches(there, lambda number, reader=reader: _size(reader, number), BATCH):  # type: ignore[misc]
            yield CountTask(os.path.abspath(reader.folder), reader.rank, tuple(steps), points)


def _size(reader: Reader, step: int) -> int:
    """Bytes of a step's kept tensors, about: those of a dump lie in other files."""
    path: Path = layout.tensor_file(reader.part, step)
    try:
        return path.stat().st_size
    except OSError:
        shapes = (reader.tensors[id].shape for id in reader.kept[step] if id in reader.tensors)
        return 4 * sum(_elements(shape) for shape in shapes)


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def _count(task: CountTask) -> Counted:
    return count_kept(Reader(task.folder, task.rank), task.watchpoints, task.steps)


def _check(task: CheckTask) -> list[Hit]:
    return recheck_rank(Reader(task.folder, task.rank), task.watchpoints, task.step, _ignore, task.counted)


def _ignore(*_: object) -> None:
    """Errors of a condition stand in its hits."""
