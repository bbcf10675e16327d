"""A dump that goes along with a session: `tensight run --dump`, `tensight.dump`, the environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensight.capture.companion import Companion
from tensight.dump import graph_mode
from tensight.dump.dumper import Dumper
from tensight.dump.settings import DumpSettings, load, parse
from tensight.dump.writing import why_not_writable
from tensight.errors import TensightError, UsageError
from tensight.records import Finding, Graph, RunEnd, StepRecord
from tensight.session.session import Session
from tensight.session.settings import Settings, rank
from tensight.session.terminal import Terminal
from tensight.session.watching import Watching
from tensight.store import Reader


class Dumping(Companion):
    """Hands the tensors of a session's steps to a dumper, and says at the end what was written and what was not."""

    wants_steps = True

    def __init__(
        self, session: Session, settings: DumpSettings, say: Callable[[str], None], *, child: bool = False
    ) -> None:
        self._session = session
        self._child = child
        self._say = say
        recorder = session.recorder
        self.dumper = Dumper(
            settings,
            framework=self._framework,
            rank=self._known_rank,
            networks=recorder.found.networks,
            tensors=recorder.tensors,
        )

    def started(self) -> None:
        self._session.recorder.tap_with(self.dumper)

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        self.dumper.step_ended(record)

    def ended(self, end: RunEnd) -> None:
        settings = self.dumper.settings
        self.dumper.close(self._graphs())
        rank = self._rank()
        if any(network.compiled for network in self._session.recorder.found.networks.values()):
            for line in graph_mode.finish(settings, rank, beside=self.dumper.wrote):
                self._say(line)
        else:
            graph_mode.discard()
        for line in self.dumper.trouble():
            self._say(line)
        if os.path.isdir(settings.path):
            self._say(f"dumped to {settings.path}; see it: tensight view {settings.path}")

    def _rank(self) -> int:
        """As the framework knows it once something was recorded, and as the launcher says it before."""
        return self._session.recorder.rank if self._session.has_trained else rank()

    def _known_rank(self) -> int | None:
        """None in a process that the script has started, until it takes part in the run."""
        return None if self._child and not self._session.has_trained else self._rank()

    def _framework(self) -> tuple[str, str]:
        adapters = self._session.recorder.adapters
        return (adapters[0].name, adapters[0].version()) if adapters else ("", "")

    def _graphs(self) -> list[Graph]:
        try:
            reader = Reader(self._session.folder, self._rank())
            found = [reader.graph(name) for name in reader.graphs]
        except (TensightError, OSError):  # nothing was recorded: the dump goes without a graph
            return []
        return [graph for graph in found if graph is not None]


def companion(session: Session, say: Callable[[str], None], *, child: bool = False) -> list[Companion]:
    """The dump that a session's settings ask for; `child` in a process that the watched script has started."""
    settings = session.settings.dump
    return [Dumping(session, settings, say, child=child)] if settings is not None else []


def prepare(settings: DumpSettings) -> None:
    """Before the script begins: the folder is there, and MindSpore knows what to dump of graphs."""
    why = why_not_writable(settings.path)
    if why:
        raise UsageError(why)
    graph_mode.prepare(settings, rank())


def dump(
    model: object,
    optimizer: object | None = None,
    *,
    path: str | Path = "",
    config: str | Path | Mapping[str, Any] | None = None,
    asynchronous: bool = False,
    targets: Sequence[object] = (),
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Watching:
    """Dump tensors of a training in a script or notebook, as a context manager.

    `config` is MindSpore's JSON, as a file or a dictionary. Or the keys of its common settings are given as they are:
    `tensight.dump(model, path="/tmp/dump", iteration="0|2", saved_data="full", level="module")`. `targets` are modules,
    or their names, that `dump_mode=2` dumps.
    """
    if config is not None and (path or settings):
        raise UsageError("tensight.dump: give a config, or a path and keys, not both")
    if isinstance(config, (str, Path)):
        wanted = load(config)
    else:
        values = dict(config) if config is not None else _values(model, path, asynchronous, targets, settings)
        wanted = parse(values, where="tensight.dump")
    why = why_not_writable(wanted.path)
    if why:
        raise UsageError(why)
    made = Settings(
        command=tuple(sys.argv),
        run_dir=Path(run_dir) if run_dir is not None else None,
        name=Path(sys.argv[0]).stem or "notebook",
        dump=wanted,
    )
    return Watching(model, optimizer, made, quiet=quiet, companions=_companions)


def _companions(session: Session) -> list[Companion]:
    voice = session.voice
    return companion(session, voice.line if isinstance(voice, Terminal) else _nobody)


def _nobody(text: str) -> None:
    """There is no terminal."""


def _values(
    model: object, path: str | Path, asynchronous: bool, targets: Sequence[object], settings: Mapping[str, Any]
) -> dict[str, Any]:
    common = {"path": str(Path(path).resolve()) if path else "", **settings}
    if targets:
        common["dump_mode"] = 2
        common["kernels"] = [_name_of(model, target) for target in targets]
    elif common.get("dump_mode") == 2:
        raise UsageError("tensight.dump: dump_mode=2 dumps what is given as targets: targets=[model.encoder]")
    return {
        "common_dump_settings": common,
        ("async_dump_settings" if asynchronous else "e2e_dump_settings"): {"enable": True},
    }


def _name_of(model: object, target: object) -> str:
    """The path of a module in its model, as a word for `kernels`."""
    if isinstance(target, str):
        return target
    walk = getattr(model, "named_modules", None) or getattr(model, "cells_and_names", None)
    for path, module in walk() if walk is not None else ():
        if module is target:
            if not path:
                raise UsageError("tensight.dump: a target is the model itself; leave targets out to dump all of it")
            return str(path)
    raise UsageError(f"tensight.dump: the target {type(target).__name__} is no module of the model")
