"""`tensight export`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.working import working
from tensight.runs import open_run
from tensight.runs.parquet import TABLES
from tensight.runs.parquet import export as exported


@click.command(short_help="Write statistics, steps or hits as a Parquet file.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The Parquet file to write.")
@click.option("--table", type=click.Choice(list(TABLES)), default="stats", show_default=True, help="What to write.")
def export(run: Path, target: Path, table: str) -> None:
    """Write the statistics, steps or hits of a run as a Parquet file.

    \b
    Example:  tensight export runs/train-1 --to stats.parquet
              tensight export runs/train-1 --to loss.parquet --table steps
    """
    with working("writing"):
        rows = exported(open_run(run), target, table)
    click.echo(f"{rows:,} rows of {table} written to {target}")
