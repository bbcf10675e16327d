"""What comparing ranks costs: `python benchmarks/agreement_cost.py [--ranks 2]`.

Replicas train under `torchrun … -m tensight run`, each network once. The processor time of every check (checksums of
gradients, weights, buffers and copies, leaving them for the others, comparing them) is added up on rank 0, which does
the most, and divided by the processor time of the training's main thread in the same steps. The first steps, which are
checked one by one, stand apart from the rest, which hold a share of the training's time.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NETWORKS = {"small": (32, 64, 2, 16, 1500), "12 million weights": (512, 2000, 4, 64, 150)}
EARLY = 64  # steps that are checked one by one


def train(name: str) -> None:
    """One rank: trains, and says what the checks have taken."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from tensight.frameworks.torch.agreement import Agreement
    from tensight.session.agreeing import Agreeing

    spent = 0.0
    original = Agreeing.step_ended

    def step_ended(*given: object) -> None:
        nonlocal spent
        began = time.thread_time()
        original(*given)  # type: ignore[arg-type]
        spent += time.thread_time() - began

    Agreeing.step_ended = step_ended  # type: ignore[method-assign,assignment]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs, width, layers, batch, steps = NETWORKS[name]
    sizes = [inputs, *[width] * (layers - 1), 8]
    net = nn.Sequential(*(one for a, b in itertools.pairwise(sizes) for one in (nn.Linear(a, b), nn.ReLU())))
    ddp = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    marks: list[tuple[float, float]] = []  # processor seconds of the thread, and of checks, at EARLY and at the end
    (own,) = (one for one in gc.get_objects() if isinstance(one, Agreement))
    began = time.thread_time()
    for step in range(steps):
        x = torch.randn(batch, inputs)
        loss = nn.functional.cross_entropy(ddp(x), x[:, :8].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 in (EARLY, steps):
            marks.append((time.thread_time() - began, spent + own._spent))
    dist.barrier()
    if dist.get_rank() == 0:
        weights = sum(one.numel() for one in net.parameters())
        print("RESULT", json.dumps({"marks": marks, "weights": weights, "every": own.every, "steps": steps}))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train:
        train(asked.train)
        return
    print(
        "| network | weights | ranks | checks of the first steps, ms each | share there | share after | steps between |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={asked.ranks}"]
            run = ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run", str(Path(__file__).resolve())]
            done = subprocess.run(
                [*launch, *run, "--train", name],
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or not lines:
            raise SystemExit(done.stderr[-3000:])
        said = json.loads(lines[0].removeprefix("RESULT "))
        (early, checked), (whole, all_checks) = said["marks"]
        later = (all_checks - checked) / (whole - early - (all_checks - checked))
        print(
            f"| {name} | {said['weights']:,} | {asked.ranks} | {1000 * checked / EARLY:.2f} "
            f"| {100 * checked / (early - checked):.1f} % | {100 * later:.2f} % | {said['every']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
