"""`tensight params`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from tensight.cli.printing import print_json, print_table
from tensight.compare import checkpoints
from tensight.compare.checkpoints.convert import load_map, network_part
from tensight.compare.parameters import Listed, Row, of_checkpoint, of_networks, side_by_side
from tensight.errors import UsageError
from tensight.records import Network
from tensight.runs import open_run
from tensight.store import is_run

_TRAINED = {True: "yes", False: "no", None: ""}
_VERDICTS = {
    "same": "",
    "layout": "another layout, by rule",
    "shape": "SHAPE DIFFERS",
    "only_a": "only in A",
    "only_b": "only in B",
}


@click.command(
    short_help="List the parameters of a run, script or checkpoint.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--map", "map_file", type=click.Path(path_type=Path), help="Names of A by those of B, where rules fail.")
@click.argument("target", type=click.Path(path_type=Path), metavar="RUN, SCRIPT or CHECKPOINT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[B or ARGS]…")
def params(target: Path, arguments: tuple[str, ...], map_file: Path | None, as_json: bool) -> None:
    """List all and trainable parameters and buffers of the models in a run, script or checkpoint.

    A script is run for one step; nothing in a checkpoint is. With a second run, checkpoint or script, the parameters
    of both stand side by side, names of different frameworks mapped.

    \b
    Example:  tensight params runs/train-1
              tensight params train.py --lr 0.1
              tensight params model.safetensors
              tensight params runs/torch-1 runs/mindspore-1
    """
    if len(arguments) == 1 and _is_other(Path(arguments[0])):
        _both(target, Path(arguments[0]), map_file, as_json)
        return
    if checkpoints.is_checkpoint(target):
        if arguments:
            raise UsageError(f"{arguments[0]}: a checkpoint stands alone, or beside one run, checkpoint or script")
        rows = _of_checkpoint(target)
    else:
        rows = _of_networks(_networks(target, arguments)[0])
    own = [row for row in rows if not row["tied_to"]]
    total = {
        "parameters": sum(int(str(row["count"])) for row in own if not row["buffer"]),
        "trainable": sum(int(str(row["count"])) for row in own if row["trainable"]),
        "buffers": sum(int(str(row["count"])) for row in own if row["buffer"]),
    }
    if as_json:
        print_json({"parameters": rows, "total": total})
        return
    if not rows:
        raise UsageError(f"{target}: no model was called in it; give a script that trains, or a run")
    print_table(
        ("network", "name", "shape", "dtype", "count", "trained", "tied to"),
        [
            (
                row["network"],
                row["name"],
                "x".join(map(str, row["shape"])) or "scalar",  # type: ignore[call-overload]
                row["dtype"],
                f"{row['count']:,}",
                "buffer" if row["buffer"] else _TRAINED[row["trainable"]],  # type: ignore[index]
                row["tied_to"],
            )
            for row in rows
        ],
    )
    if any(row["trainable"] is None for row in rows):
        click.echo(f"{total['parameters']:,} values; the file does not say which of them are trained")
        return
    click.echo(
        f"{total['parameters']:,} parameters, {total['trainable']:,} trainable; {total['buffers']:,} values in buffers"
    )


def _of_networks(networks: list[Network]) -> list[dict[str, object]]:
    return [
        {
            "network": network.name,
            "name": parameter.name,
            "shape": list(parameter.shape),
            "dtype": parameter.dtype,
            "count": parameter.size,
            "trainable": parameter.trainable and not parameter.buffer,
            "buffer": parameter.buffer,
            "tied_to": parameter.tied_to,
        }
        for network in networks
        for parameter in network.parameters
    ]


def _of_checkpoint(path: Path) -> list[dict[str, object]]:
    """What a checkpoint tells; most do not say which of their tensors are trained, and none which are buffers."""
    return [
        {
            "network": path.name,
            "name": name,
            "shape": list(entry.shape),
            "dtype": entry.dtype,
            "count": entry.count,
            "trainable": entry.trainable,
            "buffer": False,
            "tied_to": "",
        }
        for name, entry in network_part(checkpoints.read_foreign(path))[0].items()
    ]


def _is_other(path: Path) -> bool:
    """Whether an argument is a second model, and not meant for the script."""
    return is_run(path) or (path.is_file() and (path.suffix == ".py" or checkpoints.is_checkpoint(path)))


def _both(a: Path, b: Path, map_file: Path | None, as_json: bool) -> None:
    mapping = load_map(map_file) if map_file is not None else None
    found = side_by_side(_listed(a), _listed(b), mapping)
    if as_json:
        print_json({**msgspec.to_builtins(found), "same": found.same})
        return
    print_table(("A", "B", "shape A", "shape B", ""), [_cells(row) for row in found.rows])
    click.echo(f"{found.total_a:,} values in A, {found.total_b:,} in B")
    wrong = sum(row.verdict in ("shape", "only_a", "only_b") or row.trainable_differs for row in found.rows)
    click.echo("all parameters have a counterpart" if found.same else f"{wrong} parameters differ")


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    said = _VERDICTS[row.verdict] + (f" ({row.rule})" if row.rule and row.verdict == "only_a" else "")
    if row.trainable_differs:
        said = f"{said}, trained in one only".removeprefix(", ")
    return row.a or "", row.b or "", _shape(row.shape_a), _shape(row.shape_b), said


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else "x".join(map(str, shape)) or "scalar"


def _listed(path: Path) -> Listed:
    if checkpoints.is_checkpoint(path):
        return of_checkpoint(checkpoints.read_foreign(path))
    networks, framework = _networks(path, ())
    if not networks:
        raise UsageError(f"{path}: no model was called in it; give a script that trains, a run or a checkpoint")
    return of_networks(networks, framework)


def _networks(target: Path, arguments: tuple[str, ...]) -> tuple[list[Network], str]:
    if target.is_file() and target.suffix not in (".py", ""):
        # whatever is run here is run with the user's rights: not what somebody calls a model
        raise UsageError(f"{target} is no run, no checkpoint that is known here and no script, which ends in .py")
    if target.is_file():
        return _from_script(target, arguments)
    run = open_run(target)
    return list(run.networks), run.info.framework


def _from_script(script: Path, arguments: tuple[str, ...]) -> tuple[list[Network], str]:
    with tempfile.TemporaryDirectory(prefix="tensight-params-") as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--max-steps", "1"]
        done = subprocess.run(
            [*command, "--run-dir", str(run), str(script), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        opened = open_run(run)
        networks = list(opened.networks)
        if not networks and done.returncode:
            why = (opened.crash or {}).get("title") or f"exit code {done.returncode}"
            raise UsageError(f"{script}: the script failed before a model was called: {why}")
        return networks, opened.info.framework
