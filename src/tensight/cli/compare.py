"""`tensight compare`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.printing import print_json, print_table
from tensight.compare import compare as compared
from tensight.compare.checkpoints.convert import load_map
from tensight.compare.result import Comparison, Divergence

_WORDS = {
    "identical": "identical: every recorded number agrees",
    "rounding": "the same up to rounding",
    "different": "different",
    "not_comparable": "not comparable",
}


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--map", "map_file", type=click.Path(path_type=Path), help="Modules of A by those of B: JSON, or lines `a = b`."
)
@click.option("--rows", "most", default=0, metavar="N", help="Print the N worst rows of the table too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(a: Path, b: Path, map_file: Path | None, most: int, as_json: bool) -> None:
    """Compare two runs or checkpoints, of one or two frameworks, and name the first divergence.

    \b
    Example:  tensight compare runs/torch-1 runs/mindspore-1
              tensight compare --json model.pt model.ckpt
    """
    found = compared(a, b, load_map(map_file) if map_file is not None else None)
    if as_json:
        print_json(found.to_dict())
        return
    _print(found, most)


def _print(found: Comparison, most: int) -> None:
    if found.preflight:
        print_table(
            ("before any step", "A", "B"), [(one.what, _short(one.a), _short(one.b)) for one in found.preflight]
        )
        click.echo()
    loss = found.loss
    if loss.first_step_differs is not None:
        place = "forward pass" if loss.verdict == "forward" else "backward pass or the update"
        numbers = f"{loss.a:.7g} against {loss.b:.7g}"
        click.echo(f"loss      differs from step {loss.first_step_differs} on ({numbers}): look at the {place}")
    for number, fault in enumerate(found.faults):
        click.echo(("first     " if number == 0 else "also      ") + _line(fault))
        if fault.likely_cause:
            click.echo(f"  cause   {fault.likely_cause}")
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
    click.echo(f"verdict   {_WORDS[found.verdict]}" + (f" ({found.reason})" if found.reason else ""))


def _short(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list):
        return ", ".join(str(_short(one)) for one in value) or "none"
    return value


def _line(fault: Divergence) -> str:
    place = fault.module or "the model itself"
    other = f" ({fault.module_b} in B)" if fault.module_b != fault.module else ""
    where = f"  {fault.file}:{fault.line}" if fault.file else ""
    op = f"  {fault.op}" if fault.op else ""
    return (
        f"{place}{other}  {fault.tensor}{op}  step {fault.step}, {fault.phase}"
        f"  error {fault.error:.3g}, floor {fault.floor:.3g}{where}"
    )
