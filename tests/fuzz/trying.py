"""Gives a parser many cases in a process of its own, whose memory is limited, and counts what went wrong."""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tensight.errors import TensightError
from tests.fuzz.mutating import changed

MEMORY = 1 << 30  # bytes beyond what the process has at its start
HANG = 1.0  # seconds of processor time for one case
MOST_CRASHES = 10


class Prepared(NamedTuple):
    """A parser at work: good inputs, what reads one, and words of its language."""

    corpus: Sequence[bytes]
    read: Callable[[bytes], object]
    words: Sequence[bytes] = ()


class Parser(NamedTuple):
    """Something that reads what strangers wrote; `prepare` gets a folder of its own."""

    name: str
    prepare: Callable[[Path], Prepared]


@dataclass
class Outcome:
    """What many cases showed. `crashes` must stay empty."""

    name: str
    cases: int = 0
    read: int = 0  # accepted
    refused: int = 0  # by an error of ours
    slowest: float = 0.0  # seconds of processor time
    memory: int = 0  # bytes of memory above the start
    failed: int = 0
    crashes: list[str] = field(default_factory=list)  # one of each place in the code


class Hanging(BaseException):
    """A case takes too long."""


def try_parser(parser: Parser, cases: range, seed: int, *, hang: float = HANG) -> Outcome:
    """Run the cases in a forked process; a process that dies is a crash of the case it was at."""
    shared = mmap.mmap(-1, 8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            outcome = _work(parser, cases, seed, hang, shared)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(outcome, pipe)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status == 0:
        found: Outcome = pickle.loads(data)
        return found
    number = int.from_bytes(shared[:8], "little")
    said = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "an error outside the cases"
    return Outcome(parser.name, number - cases.start, failed=1, crashes=[f"case {number}: the process ended by {said}"])


def _work(parser: Parser, cases: range, seed: int, hang: float, shared: mmap.mmap) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="tensight-fuzz-"))
    faulthandler.disable()  # a crash is counted, and need not fill the screen
    try:
        return _inside(parser, folder, cases, seed, hang, shared)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _inside(parser: Parser, folder: Path, cases: range, seed: int, hang: float, shared: mmap.mmap) -> Outcome:
    prepared = parser.prepare(folder)
    outcome = Outcome(parser.name)
    for good in prepared.corpus:  # a corpus that is refused would test nothing behind the first check
        prepared.read(good)
    signal.signal(signal.SIGPROF, _ring)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, hard))
    began = _peak()
    places: set[str] = set()
    for number in cases:
        shared[:8] = number.to_bytes(8, "little")
        data = changed(prepared.corpus, seed, number, prepared.words)
        start = time.process_time()
        error = _one(prepared.read, data, hang)
        took = time.process_time() - start
        outcome.cases += 1
        outcome.slowest = max(outcome.slowest, took)
        if error is None:
            outcome.read += 1
        elif isinstance(error, TensightError) and "\n" not in str(error):
            outcome.refused += 1
        if took > hang or not (error is None or isinstance(error, TensightError)) or "\n" in str(error or ""):
            outcome.failed += 1
            place = _place(error)
            if place not in places and len(places) < MOST_CRASHES:  # many cases meet the same fault
                places.add(place)
                outcome.crashes.append(_told(number, data, error, took))
    outcome.memory = max(0, _peak() - began)
    return outcome


def _one(read: Callable[[bytes], object], data: bytes, hang: float) -> BaseException | None:
    signal.setitimer(signal.ITIMER_PROF, hang * 2)
    try:
        read(data)
    except (Exception, Hanging) as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _ring(*_: Any) -> None:
    raise Hanging("it takes too long")


def _told(number: int, data: bytes, error: BaseException | None, took: float) -> str:
    what = f"{type(error).__name__}: {str(error)[:200]}" if error is not None else "no error"
    return f"case {number}: {what}{_place(error)}, {took:.2f} s, of {len(data)} bytes {data[:80]!r}"


def _place(error: BaseException | None) -> str:
    if error is None or error.__traceback__ is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/tensight/" in frame.filename] or frames
    return f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (10 if sys.platform == "linux" else 0)


def _address_space() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    return 0
