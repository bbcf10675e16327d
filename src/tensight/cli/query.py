"""`tensight query`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.printing import print_json, print_table
from tensight.cli.working import working
from tensight.runs import open_run
from tensight.runs.sql import ask


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN or FILE.parquet")
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON object.")
@click.option("--most", type=click.IntRange(0), default=50, show_default=True, help="How many rows are printed.")
def query(run: Path, sql: str, as_json: bool, most: int) -> None:
    """Ask one SELECT of a run: tables stats, steps and hits. A file that was exported is the table stats.

    \b
    Example:  tensight query runs/train-1 "select node, max(abs_mean) from stats where kind = 'gradient' group by node"
              tensight query runs/train-1 "select step, loss from steps order by loss desc limit 5"
    """
    with working("looking"):
        answer = ask({"stats": run}, sql) if run.suffix == ".parquet" and run.is_file() else open_run(run).query(sql)
    if as_json:
        print_json({"columns": list(answer.columns), "rows": [[_plain(cell) for cell in row] for row in answer]})
        return
    print_table(answer.columns, [[_shown(cell) for cell in row] for row in answer[:most]])
    click.echo(
        f"{len(answer)} row{'' if len(answer) == 1 else 's'}" + (f", {most} shown" if len(answer) > most else "")
    )


def _shown(cell: object) -> object:
    """A cell of the table; --json has every digit."""
    return "" if cell is None else f"{cell:.8g}" if isinstance(cell, float) else cell


def _plain(cell: object) -> object:
    return cell if cell is None or isinstance(cell, (bool, int, float, str, list, dict, tuple)) else str(cell)
