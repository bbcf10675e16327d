"""`tensight explain`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.printing import print_json
from tensight.runs import open_run
from tensight.runs.blocks import crash_block, finding_block
from tensight.runs.muting import load_baseline, write_baseline


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option("--baseline", type=click.Path(path_type=Path), help="A file of known findings to leave out.")
@click.option(
    "--write-baseline", "target", type=click.Path(path_type=Path), help="Write the findings of this run as known."
)
def explain(run: Path, as_json: bool, baseline: Path | None, target: Path | None) -> None:
    """Print the findings of a run again.

    \b
    Example:  tensight explain runs/train-1
              tensight explain --json runs/train-1
    """
    opened = open_run(run)
    known = load_baseline(baseline) if baseline is not None else set()
    findings = [finding for finding in opened.findings if finding.key not in known and not finding.muted]
    if target is not None:
        write_baseline(opened.findings, target)
    if as_json:
        report = opened.report()
        kept = {finding.key for finding in findings}
        pairs = zip([f for f in opened.findings if not f.muted], report["findings"])
        report["findings"] = [shown for finding, shown in pairs if finding.key in kept]
        print_json(report)
        return
    if opened.crash:
        click.echo(crash_block(opened.crash) + "\n")
    for finding in findings:
        click.echo(finding_block(finding) + "\n")
    steps = opened.step_count
    click.echo(f"{opened.info.id}: {opened.ended} after {steps} step{'' if steps == 1 else 's'}", nl=False)
    click.echo("" if findings else "; nothing was found wrong")
    if opened.end is not None and opened.end.budget_note:
        click.echo(opened.end.budget_note)
    for line in opened.lost:
        click.echo(f"not recorded: {line}")
