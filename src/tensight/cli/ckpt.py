"""`tensight ckpt`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from tensight.cli.printing import print_json, print_table
from tensight.compare import checkpoints
from tensight.compare.checkpoints import convert as converting
from tensight.compare.checkpoints import reports

FILE = click.Path(path_type=Path)


@click.group(short_help="List, compare and convert checkpoints.")
def ckpt() -> None:
    """List, check, compare and convert checkpoints: PyTorch, safetensors, MindSpore.

    Neither framework is needed, and no code in a checkpoint is run.

    \b
    Example:  tensight ckpt show model.pt
              tensight ckpt diff step-100.ckpt step-200.ckpt
              tensight ckpt convert model.pt model.ckpt
    """


@ckpt.command(short_help="List parameters: shapes, dtypes, shares of NaN.")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--values", is_flag=True, help="Print the values too.")
def show(files: tuple[Path, ...], as_json: bool, values: bool) -> None:
    """List the parameters of checkpoints: shapes, dtypes, counts, shares of NaN, infinite and zero values.

    \b
    Example:  tensight ckpt show model.ckpt --values
    """
    found = []
    for path in files:
        checkpoint = checkpoints.read_foreign(path)
        with _progress(f"reading {path.name}") as step:
            found.append((checkpoint, reports.show(checkpoint, progress=step, values=values and as_json)))
    if as_json:
        print_json(found[0][1] if len(found) == 1 else {"files": [{"file": str(c.path), **r} for c, r in found]})
        return
    for checkpoint, report in found:
        rows = [
            (
                row["name"],
                _shape(row["shape"]),
                row["dtype"],
                f"{row['count']:,}",
                {True: "yes", False: "no", None: ""}[row["trainable"]],
                _share(row["nan"]),
                _share(row["inf"]),
                _share(row["zero"]),
                "" if row["min"] is None else f"{row['min']:.4g} … {row['max']:.4g}",
            )
            for row in report["parameters"]
        ]
        print_table(
            ("name", "shape", "dtype", "count", "trained", "nan", "inf", "zero", "range"),
            rows,
            title=f"{checkpoint.path}: {checkpoint.format}",
        )
        for name, value in checkpoint.values.items():
            click.echo(f"{name} = {value}")
        for name, kind in checkpoint.unread.items():
            click.echo(f"{name} is a {kind}, which is not shown")
        if values:
            for entry in checkpoint.entries.values():
                click.echo(f"\n{entry.name}\n{np.array2string(entry.numpy(), threshold=sys.maxsize)}")
        bad = sum(1 for row in report["parameters"] if row["nan"] or row["inf"])
        click.echo(
            f"{len(rows)} tensors, {report['total']:,} values"
            + (f"; {bad} of them hold{'s' if bad == 1 else ''} NaN or Inf" if bad else "")
        )


@ckpt.command(short_help="Say what changed from one checkpoint to another.")
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Say which parameters changed from checkpoint A to B, how much, and which are in one only.

    Names of different frameworks are mapped.

    \b
    Example:  tensight ckpt diff step-100.ckpt step-200.ckpt
    """
    one, other = checkpoints.read_foreign(a), checkpoints.read_foreign(b)
    with _progress("comparing") as step:
        found = reports.diff(one, other, progress=step)
    if as_json:
        print_json(found)
        return
    if found["changed"]:
        rows = [
            (
                row["name"],
                row.get("name_b", ""),
                f"{row['max_abs']:.4g}",
                f"{row['mean_abs']:.4g}",
                _percent(row["changed_share"]),
                _finiteness(row),
            )
            for row in found["changed"]
        ]
        print_table(("changed", "in B", "max abs", "mean abs", "of values", "note"), rows)
    for row in found["shape_differs"]:
        click.echo(f"shape differs: {row['name']}  {_shape(row['a'])} against {_shape(row['b'])}")
    for key, title in (("only_a", f"only in {a.name}"), ("only_b", f"only in {b.name}")):
        if found[key]:
            click.echo(f"{title}: {', '.join(found[key])}")
    click.echo(f"{len(found['changed'])} changed, {len(found['unchanged'])} unchanged")


@ckpt.command(short_help="Write a checkpoint in another format.")
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@click.option(
    "--to",
    "names",
    type=click.Choice(["torch", "mindspore"]),
    default=None,
    help="Whose names to use; default: as the ending of TARGET says.",
)
@click.option("--map", "map_file", type=FILE, help="Names the rules do not know: JSON, or lines `old = new`.")
@click.option("--like", type=FILE, help="A checkpoint of the target's model: settles names, checks shapes.")
@click.option("--whole", is_flag=True, help="Keep optimizer states and plain values in a PyTorch file too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def convert(
    source: Path, target: Path, names: str | None, map_file: Path | None, like: Path | None, whole: bool, as_json: bool
) -> None:
    """Convert a checkpoint; the ending of TARGET says the format (.pt, .pth, .ckpt, .safetensors).

    Names and layouts follow rules (batch norm, layer norm, embedding, Conv1d, …). All that is renamed, left out or
    not certain is listed.

    \b
    Example:  tensight ckpt convert model.pt model.ckpt
              tensight ckpt convert model.ckpt model.safetensors --to torch
    """
    mapping = converting.load_map(map_file) if map_file is not None else None
    pattern = checkpoints.read_foreign(like) if like is not None else None
    done = converting.convert(
        checkpoints.read_foreign(source), target, names=names or "", mapping=mapping, like=pattern, whole=whole
    )
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    rows = [
        (
            row.name,
            row.to,
            _shape(row.to_shape) if row.shape != row.to_shape else "",
            row.rule + ("" if row.sure else " ?"),
        )
        for row in done.tensors
        if row.rule or not row.sure
    ]
    if rows:
        print_table(("name", "becomes", "new shape", "by rule"), rows)
    for left in done.left_out:
        click.echo(f"left out: {left.name}  ({left.why})")
    for name in done.missing:
        click.echo(f"missing: {name} of {like} has no counterpart in {source}")
    unsure = sum(1 for row in done.tensors if not row.sure)
    if unsure:
        click.echo(f"{unsure} names marked ? follow from names and shapes alone: --like or --map settles them")
    states = f" and {len(done.states)} of the optimizer's states" if done.states else ""
    click.echo(
        f"{len(done.tensors)} tensors{states} written to {target}, {len(rows)} renamed, {len(done.left_out)} left out"
    )


def _finiteness(row: dict[str, Any]) -> str:
    """Values that are NaN or infinite on one side have no distance: they are counted instead."""
    count = row.get("became_or_were_not_finite", 0)
    return f"and {count:,} value{'' if count == 1 else 's'} NaN or Inf in one of them alone" if count else ""


def _shape(shape: object) -> str:
    return "x".join(map(str, shape)) or "scalar"  # type: ignore[call-overload]


def _share(value: float) -> str:
    return "" if not value else _percent(value)


def _percent(value: float) -> str:
    return f"{value:.3g}".rstrip() if value < 0.001 else f"{value:.1%}"


@contextmanager
def _progress(title: str) -> Iterator[reports.Progress]:
    """A bar on standard error while it lasts, and none where that is no terminal."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title)
        yield lambda done, total: bar.update(task, completed=done, total=total)
