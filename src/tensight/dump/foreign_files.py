"""Files beside dumps that can be shown as a run: graph files and profiles of MindSpore. None needs MindSpore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tensight.dump import graph_files, profiler_files
from tensight.dump.cached import made_once
from tensight.dump.opening import fingerprint
from tensight.dump.readers import looks_like_dump
from tensight.errors import FormatError
from tensight.store import is_run
from tensight.workers import Workers
from tensight.workers.apart import read_apart

FORMAT = 1  # of what is cached; another one is made again


class Shown(NamedTuple):
    """A run made of such files; `troubles` are the sentences about what could not be read."""

    folder: Path
    kind: str  # 'graph' | 'profile'
    operators: int
    troubles: tuple[str, ...]


def kind_of(path: Path) -> str | None:
    """'graph' or 'profile'; None when it is something else."""
    if path.is_dir() and (is_run(path) or looks_like_dump(path)):
        return None
    if graph_files.files(path):
        return "graph"
    return "profile" if profiler_files.tables(path) else None


def import_files(path: Path, folder: Callable[[], Path]) -> Shown:
    """Make a run of graph files or of a profile, in a folder that is made once they could be read."""
    kind = kind_of(path)
    if kind is None:
        raise FormatError(f"{path} holds neither graph files nor a profile of MindSpore")
    if kind == "graph":
        graphs, troubles = read_apart(graph_files.load, path)
        target = folder()
        operators = graph_files.write(path, graphs, target, troubles)
    else:
        profiles, troubles = read_apart(profiler_files.load, path)
        target = folder()
        operators = profiler_files.write(profiles, target, troubles)
    return Shown(target, kind, operators, tuple(troubles))


def run_of(path: Path, workers: Workers | None = None) -> Path | None:
    """The run that shows such files, made now or before; None when they are something else."""
    if kind_of(path) is None:
        return None
    if path.is_file():
        facts = path.stat()
        key = f"{fingerprint(path)}-{facts.st_size}-{facts.st_mtime_ns}"
    else:
        key = fingerprint(path)
    return made_once(f"{key}-{FORMAT}", path, lambda made, inside: import_files(path, lambda: made))
