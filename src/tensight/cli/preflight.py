"""`tensight preflight`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from tensight.cli.misplaced import tell_misplaced
from tensight.cli.printing import print_json
from tensight.errors import UsageError
from tensight.runs.blocks import finding_block, folded, plain
from tensight.session.preflight_checks.look import Answer
from tensight.session.program import Program
from tensight.session.session import is_off
from tensight.session.settings import Settings

MARKS = {"ok": "✔", "look": "!", "bad": "✖", "unknown": "–"}


@click.command(
    short_help="Check the first steps of a training before the long run.",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.option("--steps", type=click.IntRange(1), default=20, help="How many steps to run. Default: 20.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Default: runs/<script>-preflight-<n>.")
@click.option("--fail-on", type=click.Choice(["finding"]), help="Exit with 3 when something is wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def preflight(
    module: bool, steps: int, run_dir: Path | None, fail_on: str | None, as_json: bool, words: tuple[str, ...]
) -> None:
    """Check the first steps of a training: data, loss, gradients, updates, one batch, memory, speed.

    The script runs for a few steps and is stopped. What it prints goes to standard error.

    \b
    Example:  tensight preflight train.py --lr 0.1
              tensight preflight --fail-on finding --json train.py
    """
    from tensight.session.preflight import fly

    if not words:
        raise UsageError("name a script, e.g. `tensight preflight train.py`, or a module with -m")
    if is_off():
        raise UsageError("TENSIGHT=off switches everything off; unset it")
    program = Program(words[0], words[1:], module)
    program.check()
    tell_misplaced(program)
    folder = Settings(run_dir=run_dir, name=f"{program.name}-preflight").folder().absolute()
    with _output_to_errors():
        flown = fly(program, folder, steps=steps)
    report = flown.run.report()
    if as_json:
        print_json(
            {
                "ok": not flown.wrong and flown.script_exit == 0 and flown.run.step_count > 0,
                "steps": flown.run.step_count,
                "script_exit": flown.script_exit,
                "checks": [{"check": name, **asdict(answer)} for name, answer in flown.answers.items()],
                "findings": report["findings"],
                "crash": report["crash"],
                "coverage": report["coverage"],
                "run": str(folder),
            }
        )
    else:
        width = max(map(len, flown.answers))
        for name, answer in flown.answers.items():
            click.echo("\n".join(_check(name, answer, width)))
        for finding in flown.findings:
            click.echo("\n" + finding_block(finding))
        marks = [answer.mark for answer in flown.answers.values()]
        click.echo("\n" + _verdict(flown.run.step_count, marks, len(flown.findings)))
        if flown.script_exit:
            click.echo(f"the script itself failed with exit code {flown.script_exit}")
    if fail_on and flown.wrong:
        sys.exit(3)
    sys.exit(flown.script_exit)


def _check(name: str, answer: Answer, room: int, columns: int | None = None) -> list[str]:
    """
    >>> _check("mode", Answer("look", "not in training mode in step 3", "call model.train()"), 6, 30)
    ['! mode    not in training mode', '          in step 3', '          → call model.train()']
    """
    beside = " " * (room + 4)
    lines = folded(f"{MARKS[answer.mark]} {name:<{room}}  {plain(answer.says)}", columns, beside)
    if answer.do and answer.mark in ("look", "bad"):
        lines += folded(f"{beside}→ {plain(answer.do)}", columns, f"{beside}  ")
    return lines


def _verdict(steps: int, marks: Sequence[str], findings: int) -> str:
    """
    >>> _verdict(20, ["ok", "ok", "look", "unknown"], 0)
    '20 steps: 2 checks passed, 1 worth a look, 1 not known; nothing was found wrong'
    """
    if not steps:
        return "no step was made, so nothing could be checked"
    names = {"ok": "passed", "bad": "failed", "look": "worth a look", "unknown": "not known"}
    first, *rest = [f"{marks.count(mark)} {name}" for mark, name in names.items() if mark in marks]
    count, _, word = first.partition(" ")
    said = ", ".join([f"{count} check{'' if count == '1' else 's'} {word}", *rest])
    wrong = f"{findings} finding{'' if findings == 1 else 's'}"
    if not findings and "bad" not in marks:
        wrong = "nothing was found wrong"
    return f"{steps} step{'' if steps == 1 else 's'}: {said}; {wrong}"


@contextmanager
def _output_to_errors() -> Iterator[None]:
    """Standard output carries our result alone: what the script writes there goes to standard error."""
    ours = sys.stdout
    ours.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        for stream in (sys.stdout, ours):
            if not stream.closed:
                stream.flush()
        os.dup2(kept, 1)
        os.close(kept)
        # scripts may replace standard output, and close it
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8") if ours.closed else ours
