"""The runs of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tensight.errors import NameNotFound, TensightError
from tensight.records import Ended
from tensight.runs.run import Run
from tensight.runs.words import number, table
from tensight.store import is_run


class RunSummary(msgspec.Struct, frozen=True):
    """A run in a list; `error` says why it cannot be opened, and then the rest is empty."""

    name: str
    path: str
    ended: Ended | None = None
    started: float = 0.0
    framework: str = ""
    command: tuple[str, ...] = ()
    ranks: int = 0
    steps: int = 0
    loss: float | None = None
    findings: tuple[str, ...] = ()
    error: str | None = None


class Runs(Mapping[str, Run]):
    """The runs in a folder by name, the newest first. A folder that is itself a run is listed alone.

    Runs are opened when first asked for and refreshed when asked for again.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        self.folder = Path(folder)
        self._open: dict[str, Run] = {}

    def __getitem__(self, name: str) -> Run:
        path = self._paths().get(name)
        if path is None:
            raise NameNotFound(f"there is no run {name} in {self.folder}")
        if name in self._open:
            self._open[name].refresh()
        else:
            self._open[name] = Run(path)
        return self._open[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths())

    def __len__(self) -> int:
        return len(self._paths())

    def summaries(self) -> list[RunSummary]:
        """Every run in few words; one that cannot be opened does not hide the others."""
        return [self._summary(name, path) for name, path in self._paths().items()]

    def __repr__(self) -> str:
        return f"<Runs {self.folder}: {len(self)}>"

    def _repr_html_(self) -> str:
        head = ("run", "ended", "steps", "loss", "findings", "command")
        return table(head, [_cells(summary) for summary in self.summaries()])

    def _paths(self) -> dict[str, Path]:
        if is_run(self.folder):
            return {self.folder.resolve().name: self.folder}
        try:
            children = [child for child in self.folder.iterdir() if child.is_dir() and is_run(child)]
        except OSError:
            return {}
        return {child.name: child for child in sorted(children, key=_age)}

    def _summary(self, name: str, path: Path) -> RunSummary:
        try:
            run = self[name]
            numbers = run.steps.numbers
            return RunSummary(
                name,
                str(path),
                run.ended,
                run.info.started,
                run.info.framework,
                run.info.command,
                len(run.readers),
                run.step_count,
                run.steps.head(numbers[-1]).loss if numbers else None,
                tuple(finding.title for finding in run.findings if not finding.muted),
            )
        except TensightError as error:
            return RunSummary(name, str(path), error=str(error))


def _cells(summary: RunSummary) -> tuple[object, ...]:
    if summary.error is not None:
        return (summary.name, summary.error, "", "", "", "")
    found = "; ".join(summary.findings)
    loss = number(summary.loss)
    return (summary.name, summary.ended, summary.steps, loss, found, " ".join(summary.command))


def _age(folder: Path) -> tuple[float, str]:
    try:
        return (-folder.stat().st_mtime, folder.name)
    except OSError:
        return (0.0, folder.name)
