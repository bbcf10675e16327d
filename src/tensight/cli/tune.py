"""`tensight tune`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from tensight.cli.printing import print_json, print_table
from tensight.errors import UsageError
from tensight.records.search import Search
from tensight.runs.blocks import plain
from tensight.tuning import config as configs


@click.command()
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG.yaml")
@click.option("--trials", "--iter", type=click.IntRange(1), help="How many trials in all. Default: as the file says.")
@click.option("--workers", type=click.IntRange(1), help="How many trials run at once.")
@click.option("--folder", type=click.Path(path_type=Path), help="Default: runs/<config>-tune-<n>.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="FOLDER", help="Go on with a search.")
@click.option(
    "--storage", metavar="URL", help="A database of Optuna for many nodes, e.g. mysql://… Default: a journal."
)
@click.option("--no-findings", is_flag=True, help="Do not prune trials by findings.")
@click.option("--no-watch", is_flag=True, help="Run trials without the debugger: values must be reported or printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tune(
    config: Path,
    trials: int | None,
    workers: int | None,
    folder: Path | None,
    resume: Path | None,
    storage: str | None,
    no_findings: bool,
    no_watch: bool,
    as_json: bool,
) -> None:
    """Search for better hyper-parameters. Each trial is a run of the command with other values.

    A trial that fails does not end the search; one whose run has a finding (NaN, divergence, a dead network) is
    pruned at once. The file is one of ours or one of MindInsight's mindoptimizer.

    \b
    Example:  tensight tune search.yaml --trials 40 --workers 2
              tensight tune search.yaml --resume runs/search-tune-1
    """
    from tensight.tuning.study import Study

    asked = configs.load(config)
    asked = replace(
        asked,
        trials=trials or asked.trials,
        workers=workers or asked.workers,
        storage=storage or asked.storage,
        prune_findings=() if no_findings else asked.prune_findings,
    )
    place = _place(asked.name, folder, resume, asked.storage)
    study = Study(asked, place, watch=not no_watch)
    for note in asked.notes:
        click.echo(f"note: {plain(note)}", err=True)
    with Progress(asked.trials, as_json) as progress:
        try:
            search = study.run(progress.told)
        except KeyboardInterrupt:
            progress.stop()
            click.echo(f"stopped; go on: tensight tune {config} --resume {place}", err=True)
            sys.exit(130)
    if as_json:
        print_json({**msgspec.to_builtins(search), "folder": str(place)})
    else:
        show(search, place)
    sys.exit(0 if search.best is not None else 1)


def show(search: Search, place: Path) -> None:
    """What came out."""
    counts = {state: sum(row.state == state for row in search.trials) for state in ("complete", "pruned", "failed")}
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    click.echo(f"{len(search.trials)} trials: {words}; {search.seconds:.1f} s of training in all")
    if search.best is None:
        click.echo("no trial was completed")
        for row in search.trials[:3]:
            click.echo(f"  trial {row.number}: {plain(row.reason)}")
        return
    sign = 1 if search.goal == "minimize" else -1
    done = sorted((row for row in search.trials if row.value is not None), key=lambda row: sign * (row.value or 0.0))[
        :10
    ]
    names = search.parameters
    rows = [(row.number, f"{row.value:.6g}", *(_short(row.values.get(name)) for name in names)) for row in done]
    print_table(("trial", search.target, *names), rows)
    if search.importance:
        words = ", ".join(f"{plain(name)} {100 * share:.0f} %" for name, share in search.importance.items())
        click.echo(f"\nimportance  {words}")
    reasons = [row for row in search.trials if row.state != "complete" and row.reason]
    for row in reasons[:5]:
        click.echo(f"{row.state:<11} trial {row.number}: {plain(row.reason, 160)}")
    best = search.trials[search.best]
    click.echo(f"\nbest        {search.target} {best.value:.6g}, trial {best.number}")
    click.echo(f"again       {plain(search.best_command, 2000)}")
    click.echo(f"page        tensight view {place}")
    click.echo(f"dashboard   optuna-dashboard {search.storage}")


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _place(name: str, folder: Path | None, resume: Path | None, storage: str | None) -> Path:
    from tensight.session.settings import Settings
    from tensight.tuning.storage import JOURNAL

    if folder is not None and resume is not None:
        raise UsageError("give either --folder or --resume")
    if resume is not None:
        if not resume.is_dir():
            raise UsageError(f"--resume {resume}: there is no such folder")
        if not storage and not (resume / JOURNAL).is_file():
            raise UsageError(f"--resume {resume}: holds no search; name the folder that `tensight tune` has printed")
        return resume
    if folder is not None:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"--folder {folder}: is not empty; go on with a search there by --resume {folder}")
        return folder
    return Settings(name=f"{name}-tune").folder()


class Progress:
    """A bar on standard error, when that is a terminal."""

    def __init__(self, trials: int, quiet: bool) -> None:
        self._trials = trials
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("trials"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self._trials)
        return self

    def told(self, search: Search) -> None:
        if self._bar is None:
            return
        over = sum(row.state in ("complete", "pruned", "failed") for row in search.trials)
        best = ""
        if search.best is not None:
            best = f"best {search.target} {search.trials[search.best].value:.5g}"
        self._bar.update(self._task, completed=over, description=plain(best))

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *_: object) -> None:
        self.stop()
