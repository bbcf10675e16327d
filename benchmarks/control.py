"""How long a pause takes, and what a paused training costs.

    python benchmarks/control.py [--pauses 50] [--step 0.005] [--idle 10]

A PyTorch training under `tensight run` is paused and let go on, again and again, as a page does it: the time is from
the request to the news, on the page's own live connection, that the training holds. The step that was running is part
of it. Then it is left paused, and the processor time of training and server is read. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from websockets.sync.client import ClientConnection, connect

SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    x = torch.randn(32, 8)
    loss = torch.nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    time.sleep(float(sys.argv[1]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pauses", type=int, default=50)
    parser.add_argument("--step", type=float, default=0.005)
    parser.add_argument("--idle", type=float, default=10.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tensight-control-") as folder:
        (Path(folder) / "train.py").write_text(SCRIPT)
        command = [sys.executable, "-m", "tensight", "run", "train.py", str(asked.step)]
        process = subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert process.stderr is not None
        try:
            found = None
            while found is None:
                found = re.search(r"(http://[^/]+:(\d+))/\S*\?token=(\S+)", process.stderr.readline())
            cookie = {f"tensight_{found[2]}": found[3]}
            headers = {"Cookie": f"tensight_{found[2]}={found[3]}", "Origin": found[1]}
            live = connect(f"ws://127.0.0.1:{found[2]}/api/live", additional_headers=headers, proxy=None)
            with live, httpx.Client(base_url=found[1], cookies=cookie, timeout=60, trust_env=False) as page:
                live.send(json.dumps({"run": "train-1"}))
                print(json.dumps(measure(page, live, process.pid, asked.pauses, asked.idle)))
                page.post("/api/runs/train-1/control", json={"do": "terminate"})
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def measure(page: httpx.Client, live: ClientConnection, pid: int, pauses: int, idle: float) -> dict[str, Any]:
    def wait_for(word: str) -> None:
        while (json.loads(live.recv(60)).get("control") or {}).get("state") != word:
            pass

    def drive(do: str) -> None:
        page.post("/api/runs/train-1/control", json={"do": do}).raise_for_status()

    wait_for("running")
    time.sleep(1.0)
    taken = []
    for _ in range(pauses):
        began = time.perf_counter()
        drive("pause")
        wait_for("paused")
        taken.append(time.perf_counter() - began)
        drive("continue")
        wait_for("running")
        time.sleep(0.05)
    drive("pause")
    wait_for("paused")
    time.sleep(1.0)
    both = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    before = [sum(one.cpu_times()[:2]) for one in both]
    time.sleep(idle)
    used = [sum(one.cpu_times()[:2]) - was for one, was in zip(both, before, strict=True)]
    taken.sort()
    return {
        "pauses": pauses,
        "pause_median_ms": round(1000 * statistics.median(taken), 1),
        "pause_95_ms": round(1000 * taken[int(0.95 * (len(taken) - 1))], 1),
        "pause_longest_ms": round(1000 * taken[-1], 1),
        "paused_training_percent_of_core": round(100 * used[0] / idle, 2),
        "paused_server_percent_of_core": round(100 * sum(used[1:]) / idle, 2),
    }


if __name__ == "__main__":
    main()
