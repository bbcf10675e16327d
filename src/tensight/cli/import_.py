"""`tensight import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensight.cli.printing import print_json
from tensight.cli.spread import shared, workers
from tensight.diagnosis.words import plural
from tensight.runs.blocks import plain

if TYPE_CHECKING:
    from tensight.dump.foreign_files import Shown


@click.command("import", short_help="Make a run out of a dump of MindSpore or msprobe.")
@click.argument("dump", type=click.Path(path_type=Path), metavar="DUMPDIR")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Default: runs/<name of the dump>-<n>.")
@shared
@click.option("--json", "as_json", is_flag=True, help="Print what was made as one JSON object.")
def import_(dump: Path, run_dir: Path | None, place: str | None, jobs: int | None, as_json: bool) -> None:
    """Make a run out of a dump of MindSpore (r1.1 .bin, r1.3+ and 2.x .npy and statistic.csv), Ascend or msprobe.

    Graph files of MindSpore (.ir, .pb, or a folder of them) and what its profiler wrote become runs too.

    \b
    Example:  tensight import /data/dump
              tensight view runs/dump-1
              tensight import ir/24_execute_0139.ir
    """
    from tensight.dump.foreign_files import import_files, kind_of
    from tensight.dump.importing import import_dump
    from tensight.dump.opening import shown_progress
    from tensight.session.settings import Settings

    folder = Settings(run_dir=run_dir, name=dump.resolve().name or "dump").folder
    if kind_of(dump) is not None:
        _show(import_files(dump, folder), as_json)
        return
    with workers(place, jobs) as found:
        made = import_dump(dump, folder, progress=shown_progress(dump), workers=found)
    for sentence in made.troubles:
        click.echo(f"tensight import: {plain(sentence)}", err=True)
    if as_json:
        print_json({**made._asdict(), "folder": str(made.folder)})
        return
    click.echo(
        f"{plural(made.tensors, 'tensor')} of {plural(made.steps, 'step')} and {plural(made.ranks, 'rank')} "
        f"({', '.join(made.formats)}); see them: tensight view {made.folder}"
    )


def _show(made: Shown, as_json: bool) -> None:
    for sentence in made.troubles:
        click.echo(f"tensight import: {plain(sentence)}", err=True)
    if as_json:
        print_json({**made._asdict(), "folder": str(made.folder)})
        return
    click.echo(f"a {made.kind} of {plural(made.operators, 'operator')}; see it: tensight view {made.folder}")
