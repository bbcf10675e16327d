"""`tensight check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tensight.cli.printing import print_json, print_lost, print_table
from tensight.cli.spread import bar, shared, workers
from tensight.records import Hit
from tensight.runs import open_run
from tensight.runs.spreading import prepare
from tensight.watchpoints import recommended, spec
from tensight.watchpoints.plan import in_vain


@click.command(short_help="Ask watchpoints of a recorded run or dump.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--watch", "specs", multiple=True, metavar="SPEC", help="E.g. 'TL(max_gt=100) on gradient:*'. May be repeated."
)
@click.option("--watch-file", type=click.Path(path_type=Path), help="A TOML file of watchpoints.")
@click.option("--json", "as_json", is_flag=True, help="Print the hits as one JSON object.")
@shared
@click.option("--most", type=click.IntRange(0), default=50, show_default=True, help="How many hits are printed.")
def check(
    run: Path,
    specs: tuple[str, ...],
    watch_file: Path | None,
    as_json: bool,
    place: str | None,
    jobs: int | None,
    most: int,
) -> None:
    """Evaluate conditions on a recorded run or dump; without --watch the recommended set.

    \b
    Example:  tensight check runs/train-1 --watch 'WCL(abs_mean_update_ratio_gt=0.5) on weight:*'
              tensight check /data/dump --jobs 8
    """
    points = [spec.parse(text, number) for number, text in enumerate(specs, 1)]
    if watch_file is not None:
        points += spec.load(watch_file)
    if not points:
        points = list(recommended.watchpoints(first_id=1))
    with workers(place, jobs) as found:
        prepare(run, found)
        with bar("checking", found):
            opened = open_run(run)
            hits = list(opened.recheck(points, workers=found))
    if as_json:
        from tensight.runs.report import hit_rows

        print_json({"hits": hit_rows(hits, opened), "lost": list(opened.lost)})
        return
    print_lost("check", opened)
    several = len(opened.readers) > 1
    rows = [
        (
            hit.step,
            hit.rank if several else "",
            hit.condition,
            hit.kind.replace("_", " "),
            _tensor(hit),
            _actual(hit),
            f"not judged: {hit.note or hit.error}" if hit.error else hit.note,
        )
        for hit in hits[:most]
    ]
    for selector in in_vain(points, [info for reader in opened.readers.values() for info in reader.tensors.values()]):
        click.echo(f"tensight check: {selector!r} selects nothing that was recorded", err=True)
    if rows:
        print_table(("step", "rank", "condition", "on", "tensor", "actual (set)", "note"), rows)
    click.echo(_count(hits, most))


def _tensor(hit: Hit) -> str:
    """Which tensor it is; of an operator its name too, for a module calls many."""
    return f"{hit.place}.{hit.slot}".strip(".") + (f" ({hit.op})" if hit.op else "")


def _actual(hit: Hit) -> str:
    """What was found, each beside the limit it was held against."""
    limits = {name: f" ({value:.6g})" for name, value in hit.threshold.items()}
    return "  ".join(f"{name}={value:.6g}{limits.get(name, '')}" for name, value in hit.actual.items())


def _count(hits: Sequence[Hit], most: int) -> str:
    unjudged = sum(1 for hit in hits if hit.error)
    held = len(hits) - unjudged
    said = f"{held} hit{'' if held == 1 else 's'}" + (f", and {unjudged} could not be judged" if unjudged else "")
    return said + (f"; the first {most} of all are shown, --most shows more" if len(hits) > most else "")
