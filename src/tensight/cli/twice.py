"""`tensight twice`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tensight.cli.misplaced import tell_misplaced
from tensight.cli.printing import print_json
from tensight.cli.working import working
from tensight.compare.determinism import Determinism, has_operators, judge
from tensight.errors import UsageError
from tensight.runs import open_run
from tensight.session.program import Program
from tensight.store import Reader


@click.command(
    short_help="Run a script twice: is it deterministic?", context_settings={"allow_interspersed_args": False}
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--max-steps", type=click.IntRange(1), default=20, show_default=True, help="Steps of each run.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def twice(script: str, arguments: tuple[str, ...], as_json: bool, max_steps: int, module: bool) -> None:
    """Run a script twice and say whether its randomness is removed, and if not, what is random.

    \b
    Example:  tensight twice train.py --lr 0.1
    """
    program = Program(script, arguments, module)
    program.check()
    tell_misplaced(program)
    words = (["-m"] if module else []) + [script, *arguments]
    with tempfile.TemporaryDirectory(prefix="tensight-twice-") as folder:
        with working("running the script twice"):
            pair = _both(Path(folder) / "watched", words, max_steps)
        found = judge(*pair)
        step = found.first_step
        unclear = any(source.kind == "operator" for source in found.sources)
        if unclear and step is not None and pair[0].steps.has(step) and not has_operators(pair[0], step):
            with working(f"looking closer at step {step}"):
                closer = judge(*_both(Path(folder) / "closer", ["--steps", str(step), *words], step + 1))
            if not closer.deterministic and closer.first_step == step:
                found = closer
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _both(folder: Path, words: list[str], steps: int) -> tuple[Reader, Reader]:
    folder.mkdir()
    return _once(folder / "first", words, steps), _once(folder / "second", words, steps)


def _once(folder: Path, words: list[str], steps: int) -> Reader:
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--no-recommended"]
    done = subprocess.run(
        [*command, "--budget", "100", "--max-steps", str(steps), "--run-dir", str(folder), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "TENSIGHT"},
        text=True,
    )
    if not folder.is_dir():
        raise UsageError(f"the script could not be run: {_last(done.stderr)}")
    run = open_run(folder)
    if done.returncode and not run.step_count:
        raise UsageError(f"the script failed before its first step: {_last(done.stderr)}")
    return run.rank(min(run.readers))


def _last(text: str) -> str:
    """What the script said last: the end of its own traceback, not what Tensight prints around it.

    >>> _last("ValueError: no data\\n\\n✖ ValueError: no data\\n  why  it was given none\\n\\ntensight: 0 steps")
    'ValueError: no data'
    >>> _last("tensight: train.py: is a folder")
    'train.py: is a folder'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("tensight: ")]
    block = next((place for place, line in enumerate(lines) if line.startswith("✖ ")), len(lines))
    theirs = [line for line in lines[:block] if line not in own]
    said = theirs or [line.removeprefix("tensight: ") for line in own]
    return said[-1] if said else "no output"


def _print(found: Determinism) -> None:
    if found.deterministic:
        click.echo(f"deterministic: both runs agree in all of {found.steps} steps" if found.steps else found.reason)
        return
    click.echo(f"not deterministic: the runs part at step {found.first_step}, first in {found.first_tensor}")
    for source in found.sources:
        click.echo(f"  {source.kind:16} {source.where}")
        click.echo(f"  {'fix':16} {source.fix}")
