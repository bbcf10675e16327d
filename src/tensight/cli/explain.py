"""`tensight explain`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from tensight.cli.printing import print_json
from tensight.errors import NameNotFound, RunError
from tensight.records import Finding
from tensight.runs import Run, html, open_run
from tensight.runs.audit import lines
from tensight.runs.blocks import crash_block, finding_block, folded, plain
from tensight.runs.muting import load_baseline, write_baseline
from tensight.runs.verdict import gone_ranks, hits_in_words, nothing_wrong, own_hits
from tensight.runs.writing import write_whole

MOST_SHOWN = 50  # of what was done to the training, the newest


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write everything as one HTML file.")
@click.option(
    "--reproduce",
    "script",
    type=click.Path(path_type=Path),
    help="Write a short script that shows the fault with the real inputs of the guilty operator.",
)
@click.option("--baseline", type=click.Path(path_type=Path), help="A file of known findings to leave out.")
@click.option(
    "--write-baseline", "target", type=click.Path(path_type=Path), help="Write the findings of this run as known."
)
def explain(
    run: Path, as_json: bool, page: Path | None, script: Path | None, baseline: Path | None, target: Path | None
) -> None:
    """Print the findings of a run again.

    \b
    Example:  tensight explain runs/train-1
              tensight explain --json runs/train-1
              tensight explain --html run.html runs/train-1
              tensight explain --reproduce fault.py runs/train-1
    """
    opened = open_run(run)
    known = load_baseline(baseline) if baseline is not None else set()
    findings = [finding for finding in opened.findings if finding.key not in known and not finding.muted]
    if target is not None:
        write_baseline(opened.findings, target)
    if page is not None:
        html.write(opened, page, findings)
        click.echo(f"written: {page}", err=True)
    if script is not None:
        kept = reproduce(opened, script)
        click.echo(f"written: {script} and {kept}", err=True)
    if as_json:
        report = opened.report()
        left = {finding.key for finding in findings}
        pairs = zip([f for f in opened.findings if not f.muted], report["findings"])
        report["findings"] = [shown for finding, shown in pairs if finding.key in left]
        print_json(report)
    elif page is None and script is None:
        _print(opened, findings)


def reproduce(run: Run, script: Path) -> Path:
    """Write the script, and beside it the guilty operator's inputs; answers where those are."""
    from tensight.replay import reproduce as reproducing

    kept = [replay for replay in run.replays if replay.tensors and replay.operator]
    if not kept:
        looked = [f"step {replay.step}: {replay.status}, {replay.reason}" for replay in run.replays]
        why = "; ".join(looked) or "no step of it was looked at again (rewind looks at steps with NaN or Inf)"
        raise NameNotFound(f"{run.path} holds no operator with its inputs, so nothing can be reproduced: {why}")
    first = kept[0]
    values = script.with_suffix(".safetensors")
    text = reproducing.script(first, run.path, beside=values.name)
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(reproducing.inputs_of(first, run.path), values)
    except OSError as error:
        raise RunError(f"the inputs of step {first.step} cannot be copied to {values}: {error}") from error
    write_whole(script, text, "the script")
    return values


def _print(run: Run, findings: Sequence[Finding]) -> None:
    if run.crash:
        click.echo(crash_block(run.crash) + "\n")
    for finding in findings:
        click.echo(finding_block(finding) + "\n")
    steps = run.step_count
    known = len(run.findings) - len(findings)
    ending = "" if findings else f"; {nothing_wrong(run.ended, steps=steps, known=known)}"
    ending += hits_in_words(own_hits(run))
    _say(f"{run.info.id}: {run.ended} after {steps} step{'' if steps == 1 else 's'}{ending}")
    *earlier, last = run.history
    if earlier:
        parts = ", ".join(f"{leg.steps} of {leg.run.name}" for leg in earlier)
        _say(f"resumed after {parts}: {last.first + last.steps} steps in all, of which this is from {last.first} on")
    entries = run.audit
    if entries:
        click.echo("what was done to the training:")
        for line in lines(entries[-MOST_SHOWN:], ranks=len(run.readers) > 1):
            click.echo(f"  {line}")
    if len(entries) > MOST_SHOWN:
        click.echo(f"  and {len(entries) - MOST_SHOWN} earlier: --json lists them all")
    for line in gone_ranks(run):
        _say(line)
    if run.end is not None and run.end.budget_note:
        _say(run.end.budget_note)
    of_others = run.info.command[:2] == ("tensight", "import")
    for line in run.lost:
        _say(f"{'not read' if of_others else 'not recorded'}: {line}")


def _say(line: str) -> None:
    # names of files in a dump of others may hold anything
    click.echo("\n".join(folded(plain(line, 1200))))
