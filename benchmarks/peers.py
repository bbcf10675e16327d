"""What watching costs beside other tools: the same trainings, bare, under Tensight and under each installed tool.

    python -m venv peers && peers/bin/pip install -e '.[torch]' \\
        transformers tensorboard wandb mindstudio-probe nvdlfw-inspect nnsight
    peers/bin/python benchmarks/peers.py --only lenet --rounds 1     does everything run?
    peers/bin/python benchmarks/peers.py --write                     the table in docs/explanation/cost.md

Every measurement is a process of its own. A round goes through all tools, with a bare process before, after and
between groups of three; a ratio is the mean step of a tool's process over the mean of the two bare ones around it.
The table has the median over the rounds and the range of their middle half. The control is each bare process over the
one before it: no ratio is known better than that. Tools that are not installed, or do not run, are named and left out.
Interrupt it, and it reports the rounds that are done. Other work on the machine spoils the figures.

A tool is one file in `benchmarks/peers/`: TITLE, NEEDS (its distribution), COVERS, and `attach(model, optimizer)`,
which gives what the loop calls instead of the model, and a function of the step that gives what is entered around it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import page_tables

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "training.py"
PAGE = HERE.parent / "docs" / "explanation" / "cost.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"

NETWORKS = {"gpt": (6, 12), "resnet18": (16, 16), "lenet": (60, 40)}
"""Steps that are timed, and steps before them where Tensight watches: its budget has to settle. Others need few."""
WARMUP = 3

KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
"""Of all processes, as in overhead.py: a tool that keeps a block at the end of the heap makes a training faster."""

TITLES = {"gpt": "GPT-like, 13.8 M", "resnet18": "ResNet-18, 11.2 M", "lenet": "LeNet, 1.2 M"}

OURS = "module outputs and their gradients, weights, gradients and updates, losses, batches; conditions, rules, store"


@dataclass
class Tool:
    """One row of the table."""

    title: str
    covers: str
    command: list[str]
    peer: Path | None = None
    ratios: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def tensight(options: str, covers: str) -> Tool:
    title = f"**tensight** `{options}`" if options else "**tensight**, default (`--budget 5`)"
    return Tool(title, covers, ["-m", "tensight", "run", "--no-page", "--run-dir", "run", *shlex.split(options)])


def tools() -> tuple[list[Tool], list[str]]:
    """What can be measured here, and a sentence for each tool that can not."""
    found = [
        tensight("", f"{OURS}; fewer steps seen whole where the budget asks for it"),
        tensight("--budget 100", f"{OURS}; every tensor in every step"),
        tensight("--level op", "the same, and the output and source line of every operator, forward and backward"),
    ]
    missing = []
    for file in sorted((HERE / "peers").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"peer_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        peer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(peer)
        try:
            version = importlib.metadata.version(peer.NEEDS)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{peer.TITLE}: {peer.NEEDS} is not installed")
            continue
        found.append(Tool(f"{peer.TITLE}, {peer.NEEDS} {version.partition('+')[0]}", peer.COVERS, [], file))
    return found, missing


class Failed(Exception):
    """The process of a tool ended badly; the text is the last thing it said."""


def once(network: str, tool: Tool | None, scale: float, patience: float) -> float:
    """The mean step of one process, in seconds."""
    steps, warmup = NETWORKS[network]
    steps = max(1, int(steps * scale))
    if tool is None or tool.peer is not None:
        warmup = WARMUP
    command = [sys.executable, *(tool.command if tool else []), str(PROGRAM), network, str(steps), str(warmup)]
    if tool is not None and tool.peer is not None:
        command.append(str(tool.peer))
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, timeout=patience, env={**os.environ, **KEEP_MEMORY}
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {patience:.0f} s") from None
        if done.returncode:
            raise Failed((done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1])
        for line in reversed(done.stdout.splitlines()):
            if line.startswith("[") and line.endswith("]"):
                return statistics.fmean(json.loads(line))
        raise Failed("the training did not reach its end")


def measure(
    network: str, found: list[Tool], bare: list[float], control: list[float], given: argparse.Namespace
) -> None:
    """One round."""
    before = once(network, None, given.steps, given.patience)
    bare.append(before)
    for group in _threes([tool for tool in found if network not in tool.failed]):
        times = []
        for tool in group:
            try:
                times.append(once(network, tool, given.steps, given.patience))
            except Failed as failure:
                tool.failed[network] = str(failure)
                times.append(None)
        after = once(network, None, given.steps, given.patience)
        bare.append(after)
        control.append(after / before)
        for tool, seconds in zip(group, times):
            if seconds is not None:
                ratio = seconds / ((before + after) / 2)
                tool.ratios.setdefault(network, []).append(ratio)
            outcome = f"{ratio:7.3f}" if seconds is not None else f"left out: {tool.failed[network]}"
            print(f"  {network:9s} {tool.title:60s} {outcome}", flush=True)
        before = after


def _threes(tools: list[Tool]) -> Iterator[list[Tool]]:
    for start in range(0, len(tools), 3):
        yield tools[start : start + 3]


def figure(values: list[float]) -> str:
    """The median and the middle half.

    >>> figure([1.0, 1.1, 1.2, 1.3, 1.4]), figure([1.25])
    ('1.20 (1.10 to 1.30)', '1.25')
    """
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def table(
    networks: list[str],
    found: list[Tool],
    missing: list[str],
    bare: dict[str, list[float]],
    control: dict[str, list[float]],
    rounds: int,
) -> str:
    """The Markdown that goes into the page."""
    rows = [["tool", *(TITLES[name] for name in networks), "looks at"], ["---"] * (len(networks) + 2)]
    rows.append(["bare against bare (control)", *(figure(control[name]) for name in networks), ""])
    for tool in found:
        if tool.ratios:
            rows.append([tool.title, *(figure(tool.ratios.get(name, [])) for name in networks), tool.covers])
    for tool in found:
        for name, reason in tool.failed.items():
            missing.append(f"{tool.title}, on {TITLES[name]}: {reason}")
    steps = ", ".join(f"{TITLES[name]} {1000 * statistics.median(bare[name]):.0f} ms" for name in networks)
    said = [
        "Step time over that of the bare training: the median of the rounds, and the range of their middle half.",
        f"Rounds: {rounds}.",
        f"A bare step: {steps}.",
        f"PyTorch {importlib.metadata.version('torch')}, Python {platform.python_version()}, {os.cpu_count()} cores",
        f"({platform.machine()}).",
    ]
    text = " ".join(said) + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
    if missing:
        text += "\nLeft out:\n\n" + "\n".join(f"- {line}" for line in missing) + "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), action="append", help="this network; may be repeated")
    parser.add_argument("--tool", action="append", help="tools with this in their title; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=float, default=1.0, metavar="FACTOR", help="more or fewer timed steps")
    parser.add_argument("--patience", type=float, default=900, metavar="SECONDS", help="for one process")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(HERE.parent)}")
    given = parser.parse_args()
    found, missing = tools()
    if given.tool:
        found = [tool for tool in found if any(word.lower() in tool.title.lower() for word in given.tool)]
    networks = given.only or list(NETWORKS)
    bare: dict[str, list[float]] = {name: [] for name in networks}
    control: dict[str, list[float]] = {name: [] for name in networks}
    rounds = 0
    try:
        for number in range(given.rounds):
            for name in networks:
                print(f"round {number + 1} of {given.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
                measure(name, found, bare[name], control[name], given)
            rounds = number + 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except Failed as failure:
        raise SystemExit(f"the bare training failed: {failure}") from None
    if not rounds:
        raise SystemExit("no round was finished, so there is no table")
    text = table(networks, found, missing, bare, control, rounds)
    print("\n" + text)
    if given.write:
        page_tables.write(PAGE, BEGIN, END, text)


if __name__ == "__main__":
    main()
