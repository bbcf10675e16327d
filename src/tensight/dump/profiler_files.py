"""What MindSpore's profiler wrote (`…_ascend_ms`, or `profiler/` of older versions) as a run with a profile."""

from __future__ import annotations

import gzip
import re
import shutil
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import tensight
from tensight.dump.readers.base import numbered
from tensight.errors import FormatError, TensightError
from tensight.frameworks import mindspore_tables
from tensight.profiling import files as profile_files
from tensight.profiling import trace
from tensight.records import RunEnd, RunInfo
from tensight.records.timing import OperatorTime, Profile, Span
from tensight.store import Writer
from tensight.workers.apart import Visit, size_of

Profiles = dict[int, tuple[Profile, Path | None]]  # by rank
MOST_SPANS = 5000
_TABLE = re.compile(r"cpu_op_detail_info_(\d{1,6})\.csv")
_RANK = re.compile(r"(?:rank|device)_?(\d{1,6})")
_DEEP = 4
_MOST_LOOKED_AT = 20_000


def tables(path: Path) -> dict[int, list[Path]]:
    """Tables and traces of the profiler below a folder, by rank; none when it is something else."""
    found: dict[int, list[Path]] = defaultdict(list)
    waiting = [(path, 0)] if path.is_dir() else []
    looked = 0
    while waiting and looked < _MOST_LOOKED_AT:
        folder, depth = waiting.pop(0)
        try:
            entries = sorted(islice(folder.iterdir(), _MOST_LOOKED_AT))
        except OSError:
            continue
        looked += len(entries)
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if depth < _DEEP:
                    waiting.append((entry, depth + 1))
            elif _TABLE.fullmatch(entry.name) or entry.name in (mindspore_tables.DEVICE, mindspore_tables.TRACE):
                found[_rank(entry)].append(entry)
    told = any(file.name != mindspore_tables.TRACE for files in found.values() for file in files)
    return dict(found) if told else {}


def _rank(file: Path) -> int:
    """The rank that a file is of: its own name says it, else that of the table in its profile, else a folder's name."""
    own = _TABLE.fullmatch(file.name)
    if own is not None:
        return int(own[1])
    for beside in sorted(file.parent.parent.glob(f"FRAMEWORK/{mindspore_tables.CPU}")):
        named = _TABLE.fullmatch(beside.name)
        if named is not None:
            return int(named[1])
    for part in reversed(file.parts):
        named = _RANK.fullmatch(part)
        if named is not None:
            return numbered(named[1]) or 0
    return 0


def load(path: Path, visit: Visit | None = None) -> tuple[Profiles, list[str]]:
    """The profile and the trace of each rank, and sentences about what could not be read."""
    visit = visit or Visit()
    found = tables(path)
    troubles = [f"{file} is refused: {why}" for file, why in visit.without.items()]
    profiles: Profiles = {}
    for rank in sorted(found):
        operators: list[OperatorTime] = []
        spans: tuple[Span, ...] = ()
        timeline: Path | None = None
        for file in found[rank]:
            if file in visit.without:
                continue
            visit.at(file, size_of(file))
            try:
                if file.name == mindspore_tables.TRACE:
                    spans = spans_of(file)
                    timeline = file
                else:
                    operators += mindspore_tables.operators(file)
            except (OSError, TensightError) as error:
                troubles.append(str(error))
        if operators or spans:
            operators.sort(key=lambda row: -row.seconds)
            notes = ("read from what MindSpore's profiler wrote: it says how long operators took, not where steps end",)
            seconds = sum(one.seconds for one in operators)
            profile = Profile(
                framework="mindspore",
                command=("tensight", "import", str(path)),
                device="ascend" if any(file.name == mindspore_tables.DEVICE for file in found[rank]) else "cpu",
                rank=rank,
                ranks=max(found) + 1,
                operators=tuple(operators),
                spans=spans,
                facts={"operator_seconds": seconds},
                notes=notes,
            )
            profiles[rank] = profile, timeline
    if not profiles:
        raise FormatError(troubles[0] if troubles else f"{path} holds nothing that MindSpore's profiler wrote")
    return profiles, troubles


def write(profiles: Profiles, folder: Path, troubles: list[str]) -> int:
    """Write a run that holds profiles; answers how many rows of operators there are."""
    for rank, (profile, timeline) in profiles.items():
        info = RunInfo(
            id=folder.name,
            command=profile.command,
            started=time.time(),
            framework="mindspore",
            tensight=tensight.__version__,
            rank=rank,
            ranks=profile.ranks,
        )
        writer = Writer(folder, info)
        profile_files.write(folder, profile)
        if timeline is not None:
            with timeline.open("rb") as source, gzip.open(profile_files.trace_file(folder, rank), "wb") as target:
                shutil.copyfileobj(source, target)
        writer.end(RunEnd("finished", time.time(), None, 0, lost=tuple(troubles)))
        writer.close()
    return sum(len(profile.operators) for profile, _ in profiles.values())


def spans_of(path: Path) -> tuple[Span, ...]:
    """The first events of a trace as a timeline: a row for each thread."""
    rows: dict[tuple[str, str], int] = {}
    found: list[tuple[float, float, str, int]] = []
    for event in trace.events(path):
        times = trace.times_of(event)
        if times is None:
            continue
        start, length = times
        row = rows.setdefault((str(event.get("pid")), str(event.get("tid"))), len(rows)) if len(rows) < 64 else 0
        found.append((start, length, str(event.get("name", ""))[:300], row))
        if len(found) >= 20 * MOST_SPANS:
            break
    found.sort()
    first = found[0][0] if found else 0.0
    return tuple(Span(name, start - first, length, row) for start, length, name, row in found[:MOST_SPANS])
