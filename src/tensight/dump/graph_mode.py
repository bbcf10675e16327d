"""MindSpore's graph mode runs outside Python: there MindSpore's own dump is set to work, and completed afterwards.

On the CPU it writes tensors alone; statistics, samples and overflows are made from them when the training has ended.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tensight.dump import layout
from tensight.dump.measuring import measure, values
from tensight.dump.naming import Label
from tensight.dump.readers import npy
from tensight.dump.readers.base import Raw, numbered
from tensight.dump.readers.mindspore_npy import Parts, parse_name
from tensight.dump.settings import DumpSettings
from tensight.dump.statistic_csv import Rows, header
from tensight.dump.writing import Written, write
from tensight.errors import TensightError
from tensight.records import Stats

STAGE = "graph_mode"
VARIABLE = "MINDSPORE_DUMP_CONFIG"
_made: list[Path] = []  # where MindSpore was told to write to by this process, not by one that has started it
_ACCEPTED = re.compile(r"[A-Za-z0-9_/-]+")


def prepare(settings: DumpSettings, rank: int) -> None:
    """Before MindSpore is imported: tell it what to dump when it compiles a graph."""
    stage = settings.path.resolve() / f"{STAGE}_{rank}"
    if not _ACCEPTED.fullmatch(str(stage)):
        stage = Path(tempfile.mkdtemp(prefix=f"{STAGE}_"))  # MindSpore refuses other letters, and stops the training
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True, exist_ok=True, mode=0o700)
    first = settings.initial_iteration
    ranges = [(max(0, a - first), b - first) for a, b in settings.iterations.ranges if b >= first]
    text = "all" if settings.iterations.text == "all" else "|".join(f"{a}-{b}" if a < b else str(a) for a, b in ranges)
    config = {
        "common_dump_settings": {
            "op_debug_mode": 0,
            "dump_mode": 1 if settings.dump_mode else 0,
            "path": str(stage),
            "net_name": settings.net_name,
            "iteration": text or "0",
            "saved_data": "tensor",
            "input_output": _direction(settings),
            "kernels": settings.kernels.words,
            "support_device": list(settings.devices),
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": settings.trans_flag},
    }
    file = stage / "data_dump.json"
    file.write_text(json.dumps(config, indent=1))
    os.environ[VARIABLE] = str(file)
    _made[:] = [stage]


def _direction(settings: DumpSettings) -> int:
    if settings.overflow_only:
        return 0
    return 0 if settings.inputs and settings.outputs else 1 if settings.inputs else 2


def finish(settings: DumpSettings, rank: int, *, beside: bool) -> list[str]:
    """After the training: put what MindSpore wrote in its place; sentences say what went wrong.

    `beside` says that Tensight has dumped networks of its own: graphs then take the next free numbers.
    """
    stage = _stage()
    if stage is None:
        return []
    source = layout.rank_folder(stage, rank)
    troubles: list[str] = []
    try:
        if source.is_dir():
            _move(source, layout.rank_folder(settings.path, rank), settings, beside=beside)
            _complete(layout.rank_folder(settings.path, rank) / settings.net_name, settings, troubles)
    except OSError as error:
        troubles.append(f"the dump of graph mode could not be completed: {error}")
    shutil.rmtree(stage, ignore_errors=True)
    return troubles


def discard() -> None:
    """Nothing was compiled that Tensight has not dumped itself."""
    stage = _stage()
    if stage is not None:
        shutil.rmtree(stage, ignore_errors=True)


def _stage() -> Path | None:
    """Where MindSpore writes to until the training has ended; None when it was not prepared."""
    return _made[-1] if _made else None


def _move(source: Path, target: Path, settings: DumpSettings, *, beside: bool) -> None:
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    net = target / settings.net_name
    taken = {number for number in map(numbered, _names(net)) if number is not None} if beside else set()
    shift = max(taken, default=-1) + 1
    for name in _names(source):
        place = source / name
        if name == settings.net_name:
            for graph in _names(place):
                number = numbered(graph)
                to = net / (graph if number is None else str(number + shift))
                to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.move(place / graph, to)
        elif not (target / name).exists():
            shutil.move(place, target / name)
        else:
            for inner in _names(place):
                renamed = _renumbered(inner, shift)
                if not (target / name / renamed).exists():
                    shutil.move(place / inner, target / name / renamed)


def _renumbered(name: str, shift: int) -> str:
    """
    >>> _renumbered("ms_execution_order_graph_0.csv", 2)
    'ms_execution_order_graph_2.csv'
    """
    stem, _, suffix = name.rpartition(".")
    head, _, number = stem.rpartition("_")
    return f"{head}_{int(number) + shift}.{suffix}" if shift and number.isdecimal() else name


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _complete(net: Path, settings: DumpSettings, troubles: list[str]) -> None:
    overflows = 0
    for graph in sorted(_names(net), key=lambda name: numbered(name) or 0):
        iterations = sorted(number for number in map(numbered, _names(net / graph)) if number is not None)
        for iteration in reversed(iterations) if settings.initial_iteration else iterations:
            folder = net / graph / str(iteration)
            if settings.initial_iteration:
                moved = net / graph / str(iteration + settings.initial_iteration)
                shutil.move(folder, moved)
                folder = moved
            overflows = _complete_folder(folder, settings, overflows, troubles)


def _complete_folder(folder: Path, settings: DumpSettings, overflows: int, troubles: list[str]) -> int:
    wanted = settings.statistics or settings.overflow_only or settings.sample is not None
    if not wanted:
        return overflows
    rows = Rows(settings.categories)
    lines: list[str] = []
    kept: set[Path] | None = None
    found = list(_files(folder, troubles))
    if settings.overflow_only:
        kept, overflows = _overflowing(found, settings, overflows)
    for path, parts, raw, stats in found:
        if kept is not None and path not in kept:
            path.unlink()
            continue
        if settings.statistics:
            label = Label(parts.type, parts.name, parts.io, parts.slot)
            value = values(raw) if "md5" in settings.categories else None
            lines.append(rows.row(label, parts.time, parts.dtype or raw.dtype, raw.shape, stats, value))
        if not settings.tensors:
            path.unlink()
        elif settings.sample is not None and raw.elements > settings.sample:
            write(path, np.ascontiguousarray(values(raw).reshape(-1)[: settings.sample]), Written(), set())
    if lines:
        (folder / layout.STATISTICS).write_text(header(settings.categories) + "".join(lines))
    return overflows


def _files(folder: Path, troubles: list[str]) -> Iterator[tuple[Path, Parts, Raw, Stats]]:
    found = [(parts, name) for name in _names(folder) if (parts := parse_name(name)) is not None]
    for parts, name in sorted(found, key=lambda pair: pair[0].time):
        path = folder / name
        try:
            raw = npy.header(path, path.stat().st_size)
            yield path, parts, raw, measure(raw)
        except (TensightError, OSError) as error:
            troubles.append(str(error))


def _overflowing(
    found: list[tuple[Path, Parts, Raw, Stats]], settings: DumpSettings, overflows: int
) -> tuple[set[Path], int]:
    """Files of the first operators whose outputs are not finite, and how many those are in all."""
    names: dict[str, None] = {}
    for _, parts, _, stats in found:
        if parts.io == "output" and parts.type != "Parameter" and stats.bad:
            names.setdefault(parts.name)
    room = len(names) if not settings.overflow_number else max(0, settings.overflow_number - overflows)
    chosen = set(list(names)[:room])
    return {path for path, parts, _, _ in found if parts.name in chosen}, overflows + len(chosen)
