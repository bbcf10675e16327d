"""`tensight compare`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.printing import print_json, print_lost, print_table
from tensight.cli.spread import bar, shared, workers
from tensight.compare import compare as compared
from tensight.compare import page, telling
from tensight.compare.checkpoints.convert import load_map
from tensight.compare.result import Comparison
from tensight.runs import open_run
from tensight.runs.spreading import prepare


@click.command(short_help="Say where two runs or checkpoints first part, and why.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--map", "map_file", type=click.Path(path_type=Path), help="Modules of A by those of B: JSON, or lines `a = b`."
)
@click.option(
    "--resumed-at", type=click.IntRange(1), metavar="N", help="B was resumed after N steps of A, which ran through."
)
@click.option("--rows", "most", default=0, metavar="N", help="Print the N worst rows of the table too.")
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), help="Write one self-contained page, side by side."
)
@shared
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    a: Path,
    b: Path,
    map_file: Path | None,
    resumed_at: int | None,
    most: int,
    html_file: Path | None,
    place: str | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Compare two runs or checkpoints, of one or two frameworks, and name the first divergence.

    \b
    Example:  tensight compare runs/torch-1 runs/mindspore-1
              tensight compare runs/whole runs/resumed --resumed-at 100
              tensight compare --json model.pt model.ckpt
    """
    mapping = load_map(map_file) if map_file is not None else None
    with workers(place, jobs) as hands:
        for side in (a, b):
            prepare(side, hands)
        with bar("comparing", hands):
            found = compared(a, b, mapping, resumed_at=resumed_at, workers=hands)
    if html_file is not None:
        page.write(found, html_file, a.name or str(a), b.name or str(b))
    if as_json:
        print_json(found.to_dict())
        return
    for side in (a, b):
        if side.is_dir():
            print_lost("compare", open_run(side))
    _print(found, most)
    if html_file is not None:
        click.echo(f"written   {html_file}")


def _print(found: Comparison, most: int) -> None:
    if found.preflight:
        rows = [(one.what, telling.short(one.a), telling.short(one.b)) for one in found.preflight]
        print_table(("before any step", "A", "B"), rows)
        click.echo()
    if most and found.rows:
        worst = sorted(found.rows, key=lambda row: -row["error"] / (row["floor"] or 1.0))[:most]
        print_table(
            ("step", "phase", "module", "tensor", "error", "floor", "verdict"),
            [
                (
                    r.get("step", ""),
                    r.get("phase", ""),
                    r["module"],
                    r["tensor"],
                    f"{r['error']:.3g}",
                    f"{r['floor']:.3g}",
                    r["verdict"],
                )
                for r in worst
            ],
        )
    for said in telling.lines(found):
        click.echo(said)
