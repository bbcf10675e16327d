"""A training that was interrupted and resumed: several runs as one history.

Each run knows the one it goes on with by its name, and looks for it in its own folder alone: a run that came from
somewhere else must not be able to point at others.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tensight.errors import TensightError, UsageError
from tensight.records import RunInfo

if TYPE_CHECKING:
    from tensight.runs.run import Run

MOST_LEGS = 1000


class Leg(NamedTuple):
    """One run of a history: its first step is step `first` of the whole, and `steps` of its steps count."""

    run: Run
    first: int
    steps: int


class Resumed(NamedTuple):
    """What a new run goes on with."""

    name: str = ""
    after: int = 0


def resumed(text: str, folder: Path) -> Resumed:
    """What `--resume RUN` or `--resume RUN@STEP` means for a run in `folder`."""
    from tensight.runs.run import open_run

    place, at, number = text.rpartition("@")
    if not at or not number.isdecimal():
        place, number = text, ""
    earlier = open_run(place)
    if earlier.path.resolve().parent != folder.resolve().parent or earlier.path.resolve() == folder.resolve():
        raise UsageError(f"--resume {place}: must be another run in the folder of the new one, {folder.parent}")
    after = int(number) if number else earlier.step_count
    if after > earlier.step_count:
        raise UsageError(f"--resume {text}: {place} has only {earlier.step_count} steps")
    return Resumed(earlier.path.resolve().name, after)


def legs(run: Run) -> list[Leg]:
    """The runs of a history in order, the given one last; one that is gone is left out with all before it."""
    from tensight.runs.run import open_run

    found: list[tuple[Run, int]] = [(run, run.step_count)]
    seen = {run.path.resolve()}
    info: RunInfo = run.info
    while info.resumes and len(found) < MOST_LEGS:
        place = run.path.resolve().parent / info.resumes
        if Path(info.resumes).name != info.resumes or place in seen:
            break
        seen.add(place)
        try:
            earlier = open_run(place)
        except (TensightError, OSError):
            break
        found.append((earlier, max(0, min(info.resumed_after, earlier.step_count))))
        info = earlier.info
    first = 0
    made = []
    for one, steps in reversed(found):
        made.append(Leg(one, first, steps))
        first += steps
    return made


def losses(run: Run) -> list[tuple[int, float]]:
    """The loss by step of the whole history."""
    points = []
    for leg in legs(run):
        heads = (leg.run.steps.head(step) for step in leg.run.steps.numbers if step < leg.steps)
        points += [(leg.first + head.step, head.loss) for head in heads if head.loss is not None]
    return points
