"""`tensight.watch`: the debugger inside a script or notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tensight.errors import UsageError
from tensight.records import Watchpoint
from tensight.runs import Run, open_run
from tensight.runs.findings import Findings
from tensight.session.crashing import crash_of
from tensight.session.session import Companions, Session, is_off
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.watchpoints import spec

Batch = TypeVar("Batch")
_active: list[object] = []


class Watching:
    """A session in the user's own program, as a context manager. Made by `tensight.watch`."""

    def __init__(
        self,
        model: object,
        optimizer: object | None,
        settings: Settings,
        *,
        quiet: bool,
        companions: Companions = lambda session: [],
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._settings = settings
        self._terminal = Terminal(quiet=quiet)
        self._companions = companions
        self._session: Session | None = None

    def __enter__(self) -> Watching:
        if is_off():
            return self
        if _active:
            raise UsageError("tensight.watch: this process is watched already; leave the other `with` first")
        _active.append(self)
        try:
            self._session = Session(self._settings, self._terminal, self._companions)
            self._session.start()
            self._session.watch(self._model, self._optimizer)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            self._session = None
            _active.clear()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is None:
            return
        _active.clear()
        crashed = kind is not None and issubclass(kind, Exception)
        self._session.finish(
            "failed" if crashed else "stopped" if kind is not None else "finished",
            script_exit=None,
            crash=crash_of(error) if crashed and error is not None else None,
        )
        folder = self._session.named
        self._terminal.line(f"recorded in {folder}; see it again: tensight view {folder}")

    def steps(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches, one by one: reads as the loop it stands in."""
        yield from batches

    @property
    def folder(self) -> Path | None:
        """Where the run is recorded; None when Tensight is switched off."""
        return None if self._session is None else self._session.folder

    @property
    def findings(self) -> Findings:
        """What went wrong so far, most certain root cause first."""
        return Findings(() if self._session is None else self._session.findings)

    @property
    def run(self) -> Run:
        """The run as recorded so far."""
        if self._session is None:
            raise UsageError("tensight.watch: nothing is recorded, since TENSIGHT=off is set")
        return open_run(self._session.folder)

    def __repr__(self) -> str:
        return "<Watching: nothing is recorded>" if self._session is None else f"<Watching: {self.run!r}>"

    def _repr_html_(self) -> str:
        return "" if self._session is None else self.run._repr_html_()


def _name(program: str) -> str:
    """What a run is called after: the script; a notebook's is that of its kernel's launcher, which says nothing.

    >>> _name("src/train.py"), _name("/site-packages/ipykernel_launcher.py"), _name("")
    ('train', 'notebook', 'notebook')
    """
    stem = Path(program).stem
    return stem if stem and not stem.endswith("kernel_launcher") else "notebook"


def watch(
    model: object,
    optimizer: object | None = None,
    *,
    run_dir: str | Path | None = None,
    budget: float = 5.0,
    level: str = "watch",
    watchpoints: Sequence[str | Watchpoint] = (),
    recommended: bool = True,
    quiet: bool = False,
) -> Watching:
    """Watch a model in a script or notebook.

    Everything is recorded in `run_dir` (default `runs/<script>-<n>`); findings are printed and kept in
    `session.findings`.
    """
    if level not in ("watch", "module", "op"):
        raise UsageError(f"tensight.watch: level {level!r} is none of watch, module, op")
    points = [point if isinstance(point, Watchpoint) else spec.parse(point, 0) for point in watchpoints]
    settings = Settings(
        command=tuple(sys.argv),
        run_dir=Path(run_dir) if run_dir is not None else None,
        name=_name(sys.argv[0]),
        budget=budget,
        level=level,  # type: ignore[arg-type]
        watchpoints=tuple(points),
        recommended=recommended,
    )
    return Watching(model, optimizer, settings, quiet=quiet)
