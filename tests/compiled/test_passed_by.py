"""Compiled code calls its probes only in steps that are looked at whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1500)  # a C++ compiler runs for each graph

PROGRAM = """
import json, sys
import torch
from torch import nn
import tensight
from tensight.frameworks.torch import compiled_switch

def probes(step):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    return sum(event.count for event in profile.key_averages() if event.key == "tensight::probe")

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tensight.watch(model, optimizer, run_dir=sys.argv[1], quiet=True):
    compiled = torch.compile(model)

    def step():
        optimizer.zero_grad()
        compiled(torch.ones(6, 8)).pow(2).mean().backward()

    step()
    said = {"deep": bool(compiled_switch.DEEP), "looked": probes(step)}
    compiled_switch.look(False)
    said["passed_by"] = probes(step)
    optimizer.step()
said["deep_later"] = bool(compiled_switch.DEEP)
said["later"] = probes(step)
print(json.dumps(said))
"""


def test_probes_are_called_when_somebody_looks_and_passed_by_otherwise(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=700,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["deep"], "the first steps are looked at whole"
    assert said["looked"] > 0
    assert said["passed_by"] == 0
    assert not said["deep_later"], "whoever looked has gone"
    assert said["later"] == 0
