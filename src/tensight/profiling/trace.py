"""Reads a Chrome trace of any size in bounded memory: event by event, never the whole file."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tensight.errors import FormatError, NameNotFound
from tensight.workers.apart import Progress, Visit, read_apart, size_of

CHUNK = 1 << 20
LONGEST = 64 << 20  # characters of one event
MOST_RATIO = 100  # traces pack to a twentieth
SMALL = 32 << 20
MOST_NAMES = 20_000
DEEPEST = 2000
_BETWEEN = re.compile(r"[ \t\r\n,]*")


@dataclass
class TraceRow:
    """All events of one name and category."""

    calls: int = 0
    seconds: float = 0.0
    own: float = 0.0  # without events inside, on the same thread
    longest: float = 0.0


@dataclass
class TraceSummary:
    """What a trace holds."""

    events: int = 0
    rows: dict[tuple[str, str], TraceRow] = field(default_factory=dict)  # by category and name
    steps: list[tuple[str, float]] = field(default_factory=list)
    left_out: int = 0  # names beyond what is kept
    first: float = float("inf")
    last: float = 0.0
    processes: set[str] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        return max(0.0, self.last - self.first)


def summarise_apart(path: Path, progress: Progress | None = None) -> TraceSummary:
    """Have a child with little memory and time add up a trace, which may be a stranger's."""
    summary = read_apart(_add_up, path, progress=progress)
    if progress is not None:
        progress(size := size_of(path), size)
    return summary


def _add_up(path: Path, visit: Visit) -> TraceSummary:
    visit.at(path, size_of(path))
    return summarise(path, lambda done, _: visit.goes_on(done))


def summarise(path: Path, progress: Progress | None = None) -> TraceSummary:
    """Add up a trace. Times of events inside others are taken off when the file has them in order of time."""
    summary = TraceSummary()
    open_events: dict[tuple[str, str], list[tuple[float, TraceRow]]] = {}
    for event in events(path, progress):
        times = times_of(event)
        if times is None:
            continue
        start, length = times
        summary.events += 1
        name, category = str(event.get("name", ""))[:300], str(event.get("cat", ""))[:80]
        row = summary.rows.get((category, name))
        if row is None:
            if len(summary.rows) >= MOST_NAMES:
                summary.left_out += 1
                row = TraceRow()
            else:
                row = summary.rows[category, name] = TraceRow()
        row.calls += 1
        row.seconds += length
        row.own += length
        row.longest = max(row.longest, length)
        summary.first, summary.last = min(summary.first, start), max(summary.last, start + length)
        if len(summary.processes) < 1000:
            summary.processes.add(str(event.get("pid", ""))[:80])
        if name.startswith("ProfilerStep#") and len(summary.steps) < 100_000:
            summary.steps.append((name, length))
        stack = open_events.setdefault((str(event.get("pid"))[:80], str(event.get("tid"))[:80]), [])
        while stack and stack[-1][0] < start + length:
            stack.pop()
        if stack:
            stack[-1][1].own -= length
        stack.append((start + length, row))
        if len(stack) > DEEPEST:
            del stack[: DEEPEST // 2]  # no program nests so deep: the events have no order
        if len(open_events) > 10_000:
            open_events.clear()
    return summary


def times_of(event: dict[str, Any]) -> tuple[float, float] | None:
    """When an event began and how long it took, in seconds; None for one that has no duration.

    >>> times_of({"ph": "X", "ts": 2e6, "dur": 5e5}), times_of({"ph": "M"})
    ((2.0, 0.5), None)
    """
    if event.get("ph") != "X":
        return None
    try:
        start, length = float(event["ts"]) / 1e6, float(event.get("dur", 0)) / 1e6
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    # one endless event would take every sum with it
    return (start, length) if math.isfinite(start) and math.isfinite(length) and length >= 0 else None


def events(path: Path, progress: Progress | None = None) -> Iterator[dict[str, Any]]:
    """The events of a trace, one by one: of `{"traceEvents": [...]}` or of a bare list, also gzipped."""
    with _opened(path, progress) as text:
        buffer = _Buffer(text, path)
        buffer.find_list()
        decoder = json.JSONDecoder()
        while True:
            start = buffer.next_value()
            if start is None:
                return
            value = buffer.decode(decoder)
            if isinstance(value, dict):
                yield value


class _Buffer:
    """Text that is read as it is needed and let go once it is used."""

    def __init__(self, text: IO[str], path: Path) -> None:
        self._text = text
        self._path = path
        self._held = ""
        self._at = 0

    def _more(self, size: int = CHUNK) -> bool:
        read = self._text.read(size)
        self._held = self._held[self._at :] + read
        self._at = 0
        return bool(read)

    def find_list(self) -> None:
        """Go to the inside of the list of events."""
        self._more()
        stripped = self._held.lstrip()
        if stripped.startswith("["):
            self._at = self._held.index("[") + 1
            return
        key = '"traceEvents"'
        while True:
            place = self._held.find(key)
            if place >= 0:
                bracket = self._held.find("[", place)
                if bracket >= 0:
                    self._at = bracket + 1
                    return
            elif len(self._held) > len(key):
                self._at = len(self._held) - len(key)
            if not self._more() or len(self._held) > LONGEST:
                raise FormatError(f"{self._path}: is no Chrome trace: it has no list of traceEvents")

    def next_value(self) -> int | None:
        """Skip to the next value; None when the list is over."""
        while True:
            held = self._held
            found = _BETWEEN.match(held, self._at)
            self._at = at = found.end() if found is not None else self._at
            if at < len(held):
                return None if held[at] == "]" else at
            if not self._more():
                return None  # a trace that was cut off is read as far as it goes

    def decode(self, decoder: json.JSONDecoder) -> Any:
        while True:
            try:
                value, self._at = decoder.raw_decode(self._held, self._at)
                return value
            except json.JSONDecodeError:
                if len(self._held) - self._at > LONGEST:
                    raise FormatError(f"{self._path}: an event is longer than any event can be") from None
                # as much again: a long event is tried a few times, not once for each piece of it
                if not self._more(max(CHUNK, len(self._held) - self._at)):
                    self._at = len(self._held)
                    return None
            except ValueError:  # a number of more digits than Python takes
                raise FormatError(f"{self._path}: an event holds a number that is too long") from None
            except RecursionError:
                raise FormatError(f"{self._path}: an event is nested too deeply") from None


@contextlib.contextmanager
def _opened(path: Path, progress: Progress | None) -> Iterator[IO[str]]:
    if not path.is_file():
        raise NameNotFound(f"{path}: there is no such trace")
    size = os.path.getsize(path)
    with open(path, "rb") as raw:
        counted = _Counted(raw, size, progress) if progress is not None else raw
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        source: Any = _Unpacked(gzip.GzipFile(fileobj=counted), path, size) if packed else counted
        try:
            with io.TextIOWrapper(
                source if not packed else io.BufferedReader(source, CHUNK), encoding="utf-8", errors="replace"
            ) as text:
                yield text
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"{path}: the packed file is damaged ({error})") from None


class _Unpacked(io.RawIOBase):
    """A packed file that is refused when it unpacks to more than any trace does."""

    def __init__(self, inner: gzip.GzipFile, path: Path, size: int) -> None:
        super().__init__()
        self._inner, self._path, self._read = inner, path, 0
        self._most = max(SMALL, MOST_RATIO * size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._inner.readinto(buffer)
        self._read += count
        if self._read > self._most:
            raise FormatError(f"{self._path}: is refused, since it unpacks to more than {self._most:,} bytes")
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, raw: IO[bytes], size: int, progress: Progress) -> None:
        super().__init__()
        self._raw, self._size, self._progress, self._told = raw, size, progress, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        here = self._raw.tell()
        if here - self._told >= CHUNK or not data:
            self._told = here
            self._progress(here, self._size)
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        data = self._raw.read(-1 if size is None else size)
        here = self._raw.tell()
        if here - self._told >= CHUNK or not data:
            self._told = here
            self._progress(here, self._size)
        return data
