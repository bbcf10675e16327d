"""What all workers have in common: tasks out, results back in order, never more under way than is needed."""

from __future__ import annotations

import os
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from tensight import errors
from tensight.errors import TensightError

T = TypeVar("T")
R = TypeVar("R")
Report = Callable[[int, int | None], None]  # how many tasks are done, and of how many where that is known


class Job(NamedTuple):
    """A task on its way to a worker."""

    function: Callable[[Any], Any]
    task: Any
    paths: tuple[str, ...]  # what must be there where the work is done
    environment: dict[str, str]


class Outcome(NamedTuple):
    """What comes back: a result, or an error in words, since not every exception survives the way."""

    value: Any = None
    failed: bool = False
    error: str = ""  # name of the class, of errors raised on purpose
    message: str = ""


def done(job: Job) -> Outcome:
    """Do a task where this is called, and bring its errors home as words."""
    try:
        os.environ.update(job.environment)
        for path in job.paths:
            if not os.path.exists(path):
                raise errors.UsageError(f"{path} cannot be seen from a worker: put it on a disk that all workers share")
        return Outcome(job.function(job.task))
    except TensightError as error:
        return Outcome(None, True, type(error).__name__, str(error))
    except Exception as error:
        return Outcome(None, True, "", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")


def value(outcome: Outcome) -> Any:
    """The result, or its error raised here."""
    if not outcome.failed:
        return outcome.value
    kind = getattr(errors, outcome.error, None) if outcome.error else None
    if kind is None:
        raise RuntimeError(f"a worker failed with {outcome.message}")
    if kind is errors.MissingExtra:  # it makes its message of parts
        raise TensightError(outcome.message)
    raise kind(outcome.message)


class Workers(ABC):
    """Those who do the work. `count` is how many of them work at once; `report` is told of each task that is done."""

    count = 1
    report: Report | None = None

    def map(
        self,
        function: Callable[[T], R],
        tasks: Iterable[T],
        *,
        paths: Iterable[str | Path] = (),
    ) -> Iterator[R]:
        """`function` of each task, in the order of the tasks, of which a few more than `count` are taken at a time.

        Function and tasks travel to other processes: the function is one of a module, the tasks can be pickled. `paths`
        must be seen by the workers; where they are not, an error says so.
        """
        places = tuple(os.path.abspath(path) for path in paths)
        waiting: deque[Any] = deque()
        source = iter(tasks)
        finished, more = 0, True
        total = len(tasks) if isinstance(tasks, Sized) else None
        try:
            while more or waiting:
                while more and len(waiting) < self._ahead:
                    try:
                        task = next(source)
                    except StopIteration:
                        more = False
                        break
                    waiting.append(self._start(Job(function, task, places, _environment())))
                if waiting:
                    result: R = value(self._wait(waiting.popleft()))
                    finished += 1
                    if self.report is not None:
                        self.report(finished, total)
                    yield result
        finally:
            self._drop(waiting)

    @property
    def _ahead(self) -> int:
        return 2 * self.count + 1

    @abstractmethod
    def _start(self, job: Job) -> Any:
        """Hand a job to a worker; what comes back is what `_wait` is asked with."""

    @abstractmethod
    def _wait(self, started: Any) -> Outcome:
        """The outcome of a job, when it is there."""

    def _drop(self, started: Iterable[Any]) -> None:
        """Nobody will ask for these any more."""
        return

    def close(self) -> None:
        """Send the workers home."""
        return

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Here(Workers):
    """This process, one task after the other."""

    @property
    def _ahead(self) -> int:
        return 1

    def _start(self, job: Job) -> Job:
        return job

    def _wait(self, started: Job) -> Outcome:
        return Outcome(started.function(started.task))  # errors come as they are


def _environment() -> dict[str, str]:
    """Where our cache is: a worker that looked elsewhere would find less."""
    from tensight.stats.building import cache_folder

    return {"TENSIGHT_CACHE": os.path.abspath(os.environ.get("TENSIGHT_CACHE") or cache_folder())}


def batches(things: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Things in lists of about `most` bytes each, so that a task is worth its way.

    >>> list(batches([3, 4, 9, 1], int, 8))
    [[3, 4], [9], [1]]
    """
    batch: list[T] = []
    total = 0
    for thing in things:
        own = size(thing)
        if batch and total + own > most:
            yield batch
            batch, total = [], 0
        batch.append(thing)
        total += own
    if batch:
        yield batch
