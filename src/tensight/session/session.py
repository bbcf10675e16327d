"""A session: one training process under the debugger, from the first import of a framework to the end."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import tensight
from tensight.capture.budget import Budget
from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.capture.voice import Voice
from tensight.diagnosis.engine import Engine
from tensight.errors import TensightError, UsageError
from tensight.frameworks import registry
from tensight.records import Finding, RunEnd, RunInfo, Watchpoint
from tensight.records.run import Ended
from tensight.session import current
from tensight.session.importing import Importing
from tensight.session.late import late
from tensight.session.settings import Settings, rank, ranks
from tensight.store import Writer, layout
from tensight.watchpoints import recommended
from tensight.watchpoints.checker import Checker

if TYPE_CHECKING:
    from tensight.runs import history

Companions = Callable[["Session"], list[Companion]]


class Session:
    """Composes adapter, recorder, conditions, diagnosis and store for one training process.

    Nothing is written before a framework is imported or the session ends, so that a script that never trains costs
    nothing but its own time.
    """

    def __init__(
        self,
        settings: Settings,
        voice: Voice,
        companions: Companions = lambda session: [],
        *,
        folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self.voice = voice
        self.named = settings.folder() if folder is None else folder  # as the user knows it
        self.folder = self.named.absolute()  # a script may change its directory and go on recording
        self.resumed = self._resumed()
        self.pid = os.getpid()
        self._recorder: Recorder | None = None
        self._companions = companions
        self._importing = Importing(list(registry.ADAPTERS), self._framework_imported)
        self._opened = False
        self._begun = time.time()
        self.end: RunEnd | None = None

    def _resumed(self) -> history.Resumed:
        from tensight.runs import history

        if not self.settings.resume:
            return history.Resumed()
        try:
            return history.resumed(self.settings.resume, self.folder)
        except TensightError:
            with contextlib.suppress(OSError):
                self.folder.rmdir()  # made for this run, which does not begin
            raise

    def start(self) -> None:
        """Begin to look for frameworks."""
        current.enter(self)
        self._importing.__enter__()

    @property
    def recorder(self) -> Recorder:
        """The recorder, made when it is first needed."""
        if self._recorder is None:
            self._recorder = self._record("", "")
        return self._recorder

    @property
    def has_trained(self) -> bool:
        """Whether anything was recorded in this process."""
        return self._opened

    @property
    def findings(self) -> list[Finding]:
        return [] if self._recorder is None else self._recorder.engine.findings

    def watch(self, model: object, optimizer: object | None = None) -> None:
        """Watch a model that was made before the session began."""
        for adapter in self.recorder.adapters:
            if adapter.owns(model):
                adapter.add(model, optimizer)
                return
        known = ", ".join(registry.ADAPTERS)
        raise UsageError(f"tensight.watch: {type(model).__name__} is no model of {known}; give an nn.Module or a Cell")

    def finish(self, ended: Ended, *, script_exit: int | None, crash: Mapping[str, object] | None = None) -> RunEnd:
        """The training is over: last conclusions, last words, everything closed."""
        current.leave(self)
        self._importing.stop()
        recorder = self.recorder
        if not self._opened and crash is None and layout.is_run(self.folder):
            return self._finish_launcher(ended, script_exit)
        if crash is not None:
            recorder.writer.crash(dict(crash))
        self.end = recorder.finish(ended, script_exit=script_exit, crashed=ended == "failed")
        for adapter in recorder.adapters:
            try:
                adapter.detach()
            except Exception as error:
                recorder.failed(f"detaching from {adapter.name}", error)
        recorder.writer.close()
        return self.end

    def _finish_launcher(self, ended: Ended, script_exit: int | None) -> RunEnd:
        """Only processes that this one has started have trained: the run is theirs."""
        for adapter in self.recorder.adapters:
            adapter.detach()
        self.end = end = RunEnd(ended, time.time(), script_exit)
        for companion in self.recorder.companions:
            try:
                companion.ended(end)
            except Exception as error:
                self.recorder.failed(type(companion).__name__, error)
        return self.end

    def _framework_imported(self, name: str) -> None:
        if os.getpid() != self.pid:
            return  # a forked child of the user's own is not ours to watch
        try:
            adapter = registry.load(name)
            if self._recorder is None:
                self._recorder = self._record(name, adapter.version())
            self._recorder.adapters.append(adapter)
            adapter.attach(self._recorder)
            limit_memory = getattr(adapter, "limit_memory", None)
            if limit_memory is not None and (self.settings.memory_limit or self.settings.budget >= 100):
                limit_memory(self.settings.memory_limit or 1 << 40)
        except Exception as error:
            if self._recorder is not None:
                self._recorder.failed(f"attaching to {name}", error)
            else:
                self.voice.failed("starting", error, again=False)

    def _record(self, framework: str, version: str) -> Recorder:
        settings = self.settings
        trouble: list[tuple[str, BaseException]] = []

        def report(where: str, error: BaseException) -> None:
            if self._recorder is None:
                trouble.append((where, error))
            else:
                self._recorder.failed(where, error)

        def make() -> Writer:
            number, count = self._position()
            self._opened = True
            if self._recorder is not None:
                self._recorder.rank = self._recorder.engine.rank = number
            adapters = self._recorder.adapters if self._recorder is not None else []
            # a script may import two frameworks: the run is named after the one that trains
            trains = next((adapter for adapter in adapters if getattr(adapter, "trains", False)), None)
            named = (framework, version) if trains is None else (trains.name, trains.version())
            return Writer(self.folder, self._info(*named, number, count), on_trouble=report)

        writer = late(make)
        points = list(recommended.watchpoints(first_id=1)) if settings.recommended else []
        first = len(points) + 1
        points += [_numbered(point, first + index) for index, point in enumerate(settings.watchpoints)]
        for point in points:
            writer.watchpoint(point)
        recorder = Recorder(
            writer,
            Checker(points, on_error=report),
            Engine(on_error=report),
            Budget(settings.budget, credit=settings.free_seconds),
            self.voice,
            level=settings.level,
            deep=settings.steps,
            max_steps=settings.max_steps,
        )
        for where, error in trouble:
            recorder.failed(where, error)
        self._recorder = recorder
        try:
            recorder.companions += self._companions(self)
        except Exception as error:
            recorder.failed("companions", error)
        for companion in recorder.companions:
            try:
                companion.started()
            except Exception as error:
                recorder.failed(type(companion).__name__, error)
        return recorder

    def _info(self, framework: str, version: str, number: int, count: int) -> RunInfo:
        return RunInfo(
            id=self.folder.name,
            command=self.settings.command,
            started=self._begun,
            framework=framework,
            framework_version=version,
            python=platform.python_version(),
            platform=platform.platform(),
            tensight=tensight.__version__,
            rank=number,
            ranks=count,
            pid=self.pid,
            cwd=os.getcwd(),
            level=self.settings.level,
            budget=self.settings.budget,
            resumes=self.resumed.name,
            resumed_after=self.resumed.after,
        )

    def _position(self) -> tuple[int, int]:
        """Which rank this process is, and of how many: as the framework knows it, or the launcher, or the next free."""
        for adapter in self._recorder.adapters if self._recorder is not None else ():
            ask = getattr(adapter, "position", None)
            found: tuple[int, int] | None = ask() if ask is not None else None
            if found is not None:
                return found
        number, count = rank(), ranks()
        taken = set(layout.ranks(self.folder))
        while number in taken:
            number += 1
        return number, max(count, number + 1)


def _numbered(point: Watchpoint, number: int) -> Watchpoint:
    return msgspec.structs.replace(point, id=number)


def ended_word(exit_code: int, *, interrupted: bool, stopped: bool, crashed: bool) -> Ended:
    """The report's word for how a script ended.

    >>> ended_word(0, interrupted=False, stopped=False, crashed=False)
    'finished'
    """
    if interrupted or stopped:
        return "stopped"
    if crashed:
        return "failed"
    return "finished" if exit_code == 0 else "failed"


def is_off() -> bool:
    """Whether the user has switched everything off by `TENSIGHT=off`, or this is no rank: the scheduler of msrun."""
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        return True
    return os.environ.get("TENSIGHT", "").lower() in ("off", "0", "no", "false")
