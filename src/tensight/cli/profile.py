"""`tensight profile`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from tensight.cli import profile_tables as tables
from tensight.cli.misplaced import tell_misplaced
from tensight.cli.preflight import _output_to_errors
from tensight.cli.printing import print_json, safe
from tensight.errors import TensightError, UsageError
from tensight.frameworks.timing import Plan
from tensight.frameworks.timing_changes import read_change
from tensight.profiling import Reading, advise, files
from tensight.profiling.difference import difference
from tensight.profiling.ranks import slow_rank
from tensight.profiling.trace import summarise_apart
from tensight.records.timing import Profile
from tensight.runs import open_run
from tensight.runs.writing import write_whole
from tensight.session.program import Program
from tensight.session.session import is_off
from tensight.session.settings import Settings, rank


@click.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.option("--steps", type=click.IntRange(1), default=20, help="Steps that are clocked. Default: 20.")
@click.option("--warm-up", type=click.IntRange(0), default=5, help="Steps before them. Default: 5.")
@click.option("--trace-steps", type=click.IntRange(0), default=5, help="Steps under the framework's profiler, after.")
@click.option("--go-on", is_flag=True, help="Let the script run to its end. Default: it is stopped after the window.")
@click.option("--try", "trying", is_flag=True, help="Try what is advised on a few steps, in processes of their own.")
@click.option("--try-change", "wanted", multiple=True, metavar="CHANGE", help="Try this, e.g. workers=4, compile.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Default: runs/<script>-profile-<n>.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the report, with the split, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--show", type=click.Path(path_type=Path), metavar="RUN", help="Show a profile that was taken before.")
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="Compare with an earlier profile.")
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Add up a Chrome trace of any size.")
@click.option("--clock-only", is_flag=True, hidden=True)
@click.option("--change", "changes", multiple=True, hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def profile(
    module: bool,
    steps: int,
    warm_up: int,
    trace_steps: int,
    go_on: bool,
    trying: bool,
    wanted: tuple[str, ...],
    run_dir: Path | None,
    report: Path | None,
    as_json: bool,
    show: Path | None,
    against: Path | None,
    trace: Path | None,
    clock_only: bool,
    changes: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    """Where the time goes, and what to do about it. The script is not changed.

    After the warm-up some steps are clocked, some run under the framework's profiler, some are looked at operator by
    operator; then the script is stopped. What it prints goes to standard error.

    \b
    Example:  tensight profile train.py --lr 0.1
              tensight profile --try train.py
              tensight profile --show runs/train-profile-1
              tensight profile --show runs/train-profile-2 --against runs/train-profile-1
    """
    if trace is not None:
        _trace(trace, as_json)
        return
    if show is not None:
        _show(show, against, as_json)
        return
    if not words:
        raise UsageError("name a script, e.g. `tensight profile train.py`, or a module with -m")
    if is_off():
        raise UsageError("TENSIGHT=off switches everything off; unset it")
    if report is not None and not report.resolve().parent.is_dir():
        raise UsageError(f"--report {report}: the folder {report.resolve().parent} does not exist; make it first")
    for change in wanted:
        read_change(change)
    from tensight.session.profiling import store_tried, take
    from tensight.session.trying import steps_to_clock, try_changes

    program = Program(words[0], words[1:], module)
    program.check()
    tell_misplaced(program)
    folder = Settings(run_dir=run_dir, name=f"{program.name}-profile").folder().absolute()
    plan = Plan(warm=warm_up, clock=steps, trace=0 if clock_only else trace_steps, locate=0 if clock_only else 3)
    report = None if report is None else report.absolute()  # the script may end in another directory
    with _output_to_errors():
        taken = take(program, folder, plan=plan, changes=changes, go_on=go_on)
    found = taken.profile
    asked = [*wanted, *(change for one in taken.advice for change in one.tries)] if trying else [*wanted]
    asked = list(dict.fromkeys(asked))
    told = not as_json and rank() == 0 and not clock_only
    if told:
        tables.show(Reading(found), taken.advice)
        sys.stdout.flush()  # trying takes a while, and the advice need not wait for it
    if found.steps and (asked or trying):
        with _progress("trying") as tell:
            clocked = steps_to_clock(steps, Reading(found).own_seconds)
            tried = try_changes(program, folder, asked, steps=clocked, told=tell)
        found = store_tried(folder, found, tried)
    if report is not None:
        text = json.dumps(safe(_report(folder, found)), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(report, text + "\n", "the report")
    if as_json:
        print_json(_report(folder, found))
    elif told:
        if asked:
            tables.show_tried(found.tried)
        click.echo(f"\nrecorded in {_shown(folder)}; see it: tensight view {_shown(folder)}")
        if files.trace_file(folder).exists():
            click.echo(f"trace for Perfetto or chrome://tracing: {_shown(files.trace_file(folder))}")
    sys.stdout.flush()
    sys.exit(taken.exit_code)


def _report(folder: Path, found: Profile) -> dict[str, Any]:
    """The run's report with what a profile adds to it."""
    reading = Reading(found)
    whole: dict[str, Any] = open_run(folder).report()
    whole["split"] = reading.split
    whole["step_seconds"] = reading.seconds
    whole["tried"] = [
        {"change": one.change, "before": one.before, "after": one.after, "gain": one.gain, "note": one.note}
        for one in found.tried
    ]
    whole["profile"] = {
        "steps_clocked": len(reading.clocked),
        "own_seconds": reading.own,
        "trace_cost": reading.trace_cost,
        "operators": [
            {"name": one.name, "shapes": one.shapes, "dtypes": one.dtypes, "calls": one.calls, "seconds": one.seconds}
            for one in found.operators[:50]
        ],
        "facts": dict(found.facts),
        "notes": list(found.notes),
    }
    return whole


def _show(folder: Path, against: Path | None, as_json: bool) -> None:
    readings = [Reading(one) for one in files.need(folder)]
    if against is not None:
        before = Reading(files.need(against)[0])
        found = difference(before, readings[0])
        if as_json:
            import msgspec

            print_json(msgspec.to_builtins(found))
        else:
            tables.show_difference(found)
        return
    if as_json:
        print_json(_report(folder, readings[0].profile))
        return
    advice = advise(readings[0])
    slow = slow_rank(readings)
    if slow is not None:
        advice.insert(0, slow)
    tables.show(readings[0], advice)
    if readings[0].profile.tried:
        tables.show_tried(readings[0].profile.tried)
    if len(readings) > 1:
        tables.show_ranks(readings)


def _trace(path: Path, as_json: bool) -> None:
    with _progress("reading") as tell:
        summary = summarise_apart(path, lambda done, size: tell("", done, size))
    if not summary.events:
        raise TensightError(f"{path}: holds no events with a duration; is it a Chrome trace?")
    if not as_json:
        tables.show_trace(path, summary)
        return
    rows = sorted(summary.rows.items(), key=lambda item: -item[1].own)[:200]
    print_json(
        {
            "events": summary.events,
            "seconds": summary.seconds,
            "steps": [{"name": name, "seconds": seconds} for name, seconds in summary.steps[:1000]],
            "rows": [
                {"category": key[0], "name": key[1], "calls": row.calls, "own": row.own, "seconds": row.seconds}
                for key, row in rows
            ],
        }
    )


class _progress:
    """A bar on standard error, when that is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Any:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=None)
        return self.tell

    def tell(self, text: str, done: int | None = None, size: int | None = None) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._what} {text}", completed=done, total=size)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
