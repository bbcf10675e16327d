"""`tensight params`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tensight.cli.printing import print_json, print_table
from tensight.errors import UsageError
from tensight.records import Network
from tensight.runs import open_run


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("target", type=click.Path(path_type=Path), metavar="RUN or SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def params(target: Path, arguments: tuple[str, ...], as_json: bool) -> None:
    """List all and trainable parameters and buffers of the models in a run or script.

    A script is run for one step.

    \b
    Example:  tensight params runs/train-1
              tensight params train.py --lr 0.1
    """
    networks = _from_script(target, arguments) if target.is_file() else open_run(target).networks
    rows = [
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
        ("network", "name", "shape", "dtype", "count", "trained"),
        [
            (
                row["network"],
                row["name"],
                "x".join(map(str, row["shape"])) or "scalar",  # type: ignore[call-overload]
                row["dtype"],
                f"{row['count']:,}",
                "buffer" if row["buffer"] else "yes" if row["trainable"] else "no",
            )
            for row in rows
        ],
    )
    click.echo(
        f"{total['parameters']:,} parameters, {total['trainable']:,} trainable; {total['buffers']:,} values in buffers"
    )


def _from_script(script: Path, arguments: tuple[str, ...]) -> list[Network]:
    with tempfile.TemporaryDirectory(prefix="tensight-params-") as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--max-steps", "1"]
        done = subprocess.run(
            [*command, "--run-dir", str(run), str(script), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        networks = list(open_run(run).networks)
        if not networks and done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise UsageError(f"{script}: the script failed before a model was called: {last}")
        return networks
