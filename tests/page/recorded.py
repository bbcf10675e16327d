"""A recorded run, made without any framework: a small network whose gradient becomes NaN."""

from __future__ import annotations

import math
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tensight.records import (
    Coverage,
    Event,
    Evidence,
    Finding,
    Gap,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
    Watchpoint,
    Where,
)
from tensight.runs import beats, output
from tensight.store import Writer
from tensight.watchpoints import recommended, spec
from tensight.watchpoints.checker import Checker

LAYERS = [
    ("", "LeNet"),
    ("conv", "Sequential"),
    ("conv.0", "Conv2d"),
    ("conv.1", "ReLU"),
    ("conv.2", "Conv2d"),
    ("conv.3", "ReLU"),
    ("head", "Head"),
    ("head.fc", "Linear"),
    ("head.scale", "Distance"),
]
WEIGHTS = {"conv.0": (6, 1, 5, 5), "conv.2": (16, 6, 5, 5), "head.fc": (84, 256)}
SQRT = Source("train.py", 31, "dist = torch.sqrt(d2.sum(1))", "forward")


def tensors(layers: list[tuple[str, str]] = LAYERS) -> list[TensorInfo]:
    """Outputs, weights and gradients of every layer, and the loss."""
    infos: list[TensorInfo] = []

    def add(**fields: object) -> None:
        infos.append(TensorInfo(id=len(infos), dtype="float32", network="LeNet", **fields))  # type: ignore[arg-type]

    add(kind="input", node="", slot="input.0", shape=(32, 1, 28, 28))
    for path, type_ in layers:
        kind = "activation" if type_ == "ReLU" else "output"
        source = SQRT if path == "head.scale" else None
        add(kind=kind, node=path, slot="output.0", shape=(32, 84), type=type_, source=source)
    for path in WEIGHTS:
        add(kind="weight", node=path, slot="weight", shape=WEIGHTS[path], phase="update")
    for path in WEIGHTS:
        add(kind="gradient", node=path, slot="weight", shape=WEIGHTS[path], phase="backward")
    add(kind="loss", node="", slot="loss", shape=())
    return infos


def network(layers: list[tuple[str, str]] = LAYERS) -> Network:
    return Network(
        name="LeNet",
        type="LeNet",
        modules=tuple(Module(path, type_, activation=type_ == "ReLU") for path, type_ in layers),
        parameters=tuple(
            Parameter(f"{path}.weight", shape, "float32", module=path, optimizer="SGD")
            for path, shape in WEIGHTS.items()
        ),
    )


def stats(noise: random.Random, size: int, scale: float, *, nan: int = 0, zero: int = 0) -> Stats:
    """Statistics as a normal tensor of this scale has them."""
    left = size - nan - zero
    half = left // 2
    spread = scale * (0.9 + 0.2 * noise.random())
    return Stats(
        count=size,
        nan=nan,
        zero=zero,
        negative=half,
        positive=left - half,
        min=-3.2 * spread if left else None,
        max=3.3 * spread if left else None,
        mean=0.01 * spread if left else None,
        abs_mean=0.8 * spread if left else None,
        std=spread if left else None,
        l2=spread * math.sqrt(left) if left else None,
    )


def record(step: int, infos: list[TensorInfo], *, bad_from: int | None, time: float, seed: int = 0) -> StepRecord:
    """One step of a training whose gradient becomes NaN at `bad_from`, and its weights and loss a step later."""
    noise = random.Random(seed * 100_003 + step)
    broken = bad_from is not None and step >= bad_from
    spoilt = bad_from is not None and step > bad_from
    seen = []
    for order, info in enumerate(infos):
        size = max(1, math.prod(info.shape))
        bad = spoilt if info.kind in ("weight", "output", "activation", "loss") else broken
        if info.kind == "input" or (info.node == "conv.0" and info.kind == "output"):
            bad = False
        scale = {"gradient": 3e-3, "weight": 0.05, "loss": 1.0}.get(info.kind, 1.0) * (1 + 0.002 * step)
        zero = size // 2 if info.kind == "activation" else 0
        seen.append(
            Observation(
                info.id, order, stats(noise, size, scale, nan=size if bad else 0, zero=0 if bad else zero), info.phase
            )
        )
    loss = math.nan if spoilt else 0.2 + 2.1 * math.exp(-step / 60) + 0.05 * noise.random()
    return StepRecord(
        step=step,
        time=time + 0.05 * step,
        seconds=0.05 + 0.004 * noise.random(),
        loss=loss,
        scalars={
            "lr": 0.1 * 0.5 ** (step // 50),
            "gradient_norm": math.nan if broken else 1.5 + 0.4 * noise.random(),
            "scale": 65536.0,
        },
        events=(
            Event("batch", 0, "DataLoader", {"index": step % 40, "size": 32}),
            Event("optimizer_step", 99, "SGD", {"lr": 0.1}, Source("train.py", 52, "optimizer.step()")),
        ),
        observations=tuple(seen),
    )


def finding(step: int) -> Finding:
    return Finding(
        fault="sqrt_zero_gradient",
        category="numerics",
        title="gradient became NaN",
        confidence=0.97,
        since_step=step,
        where=Where("head.scale", "aten.sqrt", None, "train.py", 31, "dist = torch.sqrt(d2.sum(1))", "LeNet"),
        why="sqrt has an infinite slope at 0; 3 of 32 rows of its input are exactly 0",
        evidence=(
            Evidence("rows of its input that are exactly 0", 3, step),
            Evidence("smallest input of sqrt", 0.0, step),
            Evidence("NaN in the gradient of head.fc.weight", 21504, step),
        ),
        fix=(
            "add a small constant inside the root: torch.sqrt(d2.sum(1) + 1e-12)",
            "or leave the root out and compare squared distances",
        ),
        then=("head.fc.weight.grad", "2 more gradients", f"every weight at step {step + 1}"),
        since="backward pass; forward values were all finite",
        confirm=("run the step again with the constant added: the gradient is finite",),
        replay="exact",
    )


def print_lines(folder: Path, steps: int = 60) -> None:
    """What the script of a recorded run has printed."""
    lines = [output.Line(0, 1_780_000_000.0, "stderr", "UserWarning: the learning rate is high")]
    lines += [output.Line(step, 1_780_000_000.0 + step, "stdout", f"step {step}  loss 0.5") for step in range(steps)]
    output.append(folder, 0, lines)


def write_ranks(folder: Path) -> Path:
    """A run of four ranks that does not get on: three wait in a collective for the fourth, which is gone."""
    now = time.time()
    for rank in range(4):
        write_run(folder, steps=12, bad_from=None, rank=rank, ranks=4, finished=False, watch=())
        calls = (
            beats.Frame("/home/user/lenet/train.py", 60, "<module>", "main()"),
            beats.Frame("/home/user/lenet/train.py", 44, "main", "loss.backward()"),
            beats.Frame("/lib/python3.11/site-packages/torch/_tensor.py", 648, "backward", "torch.autograd.backward("),
        )
        beat = beats.Beat(
            rank,
            4,
            os.getpid() if rank < 3 else 2**22 - 1,  # a number that no process has
            socket.gethostname(),
            now,
            12 if rank < 3 else 11,
            now - 48.0,
            operation="torch.autograd.backward" if rank < 3 else "",
            place="train.py:44" if rank < 3 else "",
            code="loss.backward()",
            stack=calls if rank < 3 else (),
            stalled=rank < 3,
        )
        beats.write(folder, beat)
    return folder


def write_run(
    folder: Path,
    *,
    steps: int = 180,
    made: int = 0,
    bad_from: int | None = 153,
    rank: int = 0,
    ranks: int = 1,
    extra: Callable[[Writer], None] = lambda writer: None,
    finished: bool = True,
    killed: bool = False,
    watch: tuple[str, ...] = ("TL(max_gt=3.5) on output:head.*",),
) -> Path:
    """A whole run directory; `made` counts steps that were not recorded too."""
    started = 1_780_000_000.0
    info = RunInfo(
        id=folder.name,
        command=("train.py", "--lr", "0.1"),
        started=started,
        framework="torch",
        framework_version="2.13.0",
        python="3.11.7",
        platform="Linux-6.1-x86_64",
        tensight="0.1.0",
        rank=rank,
        ranks=ranks,
        pid=0 if finished or killed else os.getpid(),
        cwd="/home/user/lenet",
    )
    writer = Writer(folder, info)
    infos = tensors()
    writer.network(network())
    writer.part(Part("optimizer", "SGD", "SGD", {"lr": 0.1, "momentum": 0.9}, Source("train.py", 44)))
    writer.part(Part("loader", "DataLoader", "DataLoader", {"batch_size": 32, "shuffle": True, "workers": 2}))
    for one in infos:
        writer.tensor(one)
    points: list[Watchpoint] = recommended.watchpoints(first_id=1)
    points += [spec.parse(text, len(points) + 1 + index) for index, text in enumerate(watch)]
    for point in points:
        writer.watchpoint(point)
    checker = Checker(points)
    known = {one.id: one for one in infos}
    writer.coverage(
        Coverage(
            models=("LeNet",),
            optimizers=("SGD",),
            losses=("cross_entropy",),
            loaders=("DataLoader",),
            tensors=24,
            watched=len(infos),
            gaps=(Gap("the second output of conv", "it is a dictionary of lists", "return the tensors flat"),),
        )
    )
    extra(writer)
    for step in range(steps):
        one = record(step, infos, bad_from=bad_from, time=started, seed=rank)
        hits = checker.check(step, one.observations, known, rank=rank, updates=step)
        writer.step(msgspec.structs.replace(one, hits=tuple(hits)))
        if step == bad_from:
            writer.findings([finding(step)])
            writer.replay(
                Replay(step, "exact", "fork at the hit", operator="aten.sqrt", module="head.scale", source=SQRT)
            )
    if finished and not killed:
        writer.end(RunEnd("finished", started + 0.05 * steps, 0, made or steps, 1.031))
    writer.close()
    return folder
