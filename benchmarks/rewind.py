"""What rewind costs: keeping ready, a hit, memory.

    OMP_NUM_THREADS=1 python benchmarks/rewind.py

Each training runs in a process of its own, by turns without Tensight, watched, and watched with rewind. Times are
those of the training's processor, so that other work on the machine hardly counts.

What a hit loses is nearly all the kernel's: the fork, and the pages that the next step writes while the copy still
shares them. Pages and kernel time of the hit are shown beside it, since what a page costs depends on the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 2
MB = 1 << 20

TRAINING = """
import json, resource, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

width, steps, workers, bad = map(int, sys.argv[1:5])
torch.manual_seed(0)
torch.set_num_threads(1)
if sys.argv[5] == "dense":
    net = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
else:  # as many weights, and more to compute with each of them
    net = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, width // 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width // 8, width // 2, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width // 2, width // 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * width, 1),
    )
opt = torch.optim.Adam(net.parameters(), lr=1e-4)
loader = DataLoader(TensorDataset(torch.rand(64 * steps, 64)), batch_size=64, num_workers=workers)
good = {name: value.clone() for name, value in net.state_dict().items()}
times, kernel, faults = [], [], []
begun = time.process_time()
for step, (x,) in enumerate(loader):
    loss = torch.log(net(x).pow(2) * (step != bad) + (step != bad)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step == bad:
        net.load_state_dict(good)
        opt.state.clear()
    now = time.process_time()
    times.append(now - begun)
    used = resource.getrusage(resource.RUSAGE_SELF)
    kernel.append(used.ru_stime)
    faults.append(used.ru_minflt)
    begun = now
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
weights = sum(p.numel() * p.element_size() for p in net.parameters())
print("RESULT " + json.dumps({"times": times, "peak": peak, "state": 3 * weights, "kernel": kernel, "faults": faults}))
"""


def run(kind: str, net: str, width: int, steps: int, workers: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAINING)
        command = [sys.executable]
        if kind != "alone":
            command += ["-m", "tensight", "run", "--no-page", "--report", "report.json"]
            command += [] if kind == "rewind" else ["--no-rewind"]
        command += ["train.py", *map(str, (width, steps, workers, steps // 2)), net]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            raise SystemExit(done.stdout + done.stderr)
        return json.loads(lines[-1][7:])


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _at_hit(counted: list[float], bad: int) -> float:
    """What a counter went up by in the bad step and the one after it, in which a copy is made."""
    return counted[bad + 1] - counted[bad - 1]


def main() -> None:
    for name, net, width, steps, workers in (
        ("small network, no workers", "dense", 64, 600, 0),
        ("medium network, no workers", "dense", 1024, 120, 0),
        ("medium network, 2 workers", "dense", 1024, 120, 2),
        ("medium convolutions, 2 workers", "convolutions", 1024, 60, 2),
    ):
        print(name)
        seen: dict[str, list[dict]] = {"alone": [], "watched": [], "rewind": []}
        for kind in ("alone", "watched", "rewind") * ROUNDS:
            seen[kind].append(run(kind, net, width, steps, workers))
        bad = steps // 2
        total = {kind: min(sum(one["times"][20 : bad - 1]) for one in all_of) for kind, all_of in seen.items()}
        hit = {kind: min(sum(one["times"][bad : bad + 2]) for one in all_of) for kind, all_of in seen.items()}
        kernel = {kind: 1000 * min(_at_hit(one["kernel"], bad) for one in all_of) for kind, all_of in seen.items()}
        pages = {kind: min(_at_hit(one["faults"], bad) for one in all_of) for kind, all_of in seen.items()}
        peak = {kind: min(one["peak"] for one in all_of) / MB for kind, all_of in seen.items()}
        step = middle(seen["alone"][0]["times"][20:])
        watched, rewind = total["watched"] / total["alone"], total["rewind"] / total["alone"]
        print(
            f"  a step takes {1000 * step:.2f} ms, weights and optimizer states {seen['alone'][0]['state'] / MB:.1f} MB"
        )
        print(f"  processor time: watched {watched:.3f} of the training alone, with rewind {rewind:.3f}")
        print(
            f"  lost at a hit: {1000 * (hit['rewind'] - hit['watched']):.2f} ms, of it in the kernel"
            f" {kernel['rewind'] - kernel['watched']:.2f} ms for {pages['rewind'] - pages['watched']:.0f} pages more"
        )
        print(
            f"  peak memory: alone {peak['alone']:.0f} MB, watching adds {peak['watched'] - peak['alone']:.1f} MB,"
            f" rewind {peak['rewind'] - peak['watched']:.1f} MB"
        )


if __name__ == "__main__":
    main()
