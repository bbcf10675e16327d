"""`tensight import`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.printing import print_json
from tensight.runs.blocks import plain


@click.command("import")
@click.argument("dump", type=click.Path(path_type=Path), metavar="DUMPDIR")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Default: runs/<name of the dump>-<n>.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as one JSON object.")
def import_(dump: Path, run_dir: Path | None, as_json: bool) -> None:
    """Make a run out of a dump of MindSpore (r1.1 .bin, r1.3+ and 2.x .npy and statistic.csv), Ascend or msprobe.

    \b
    Example:  tensight import /data/dump
              tensight view runs/dump-1
    """
    from tensight.dump.importing import import_dump
    from tensight.dump.opening import shown_progress
    from tensight.session.settings import Settings

    folder = Settings(run_dir=run_dir, name=dump.resolve().name or "dump").folder
    made = import_dump(dump, folder, progress=shown_progress(dump))
    for sentence in made.troubles:
        click.echo(f"tensight import: {plain(sentence)}", err=True)
    if as_json:
        print_json({**made._asdict(), "folder": str(made.folder)})
        return
    click.echo(
        f"{made.tensors} tensors of {made.steps} step{'' if made.steps == 1 else 's'} and {made.ranks} "
        f"rank{'' if made.ranks == 1 else 's'} ({', '.join(made.formats)}); see them: tensight view {made.folder}"
    )
