"""A training that runs eager and one that runs compiled, compared: rounding is told from what compiling has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import sys, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        if "changed" in sys.argv and torch.compiler.is_compiling():
            x = x * 1.5  # what another version of the code does
        return self.head(x)

torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
model = net if "eager" in sys.argv else torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(16, 6)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("eager")
    (place / "train.py").write_text(SCRIPT)
    for name, words in {"eager": ["eager"], "compiled": [], "changed": ["changed"]}.items():
        done = _tensight(place, "run", "--no-page", "--run-dir", name, "train.py", *words)
        assert done.returncode == 0, done.stderr
    return place


def _tensight(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tensight", *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=600, check=False)


def compared(folder: Path, other: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_tensight(folder, "compare", "eager", other, "--json").stdout)
    return found


def test_eager_and_compiled_are_the_same_or_differ_by_rounding(folder: Path) -> None:
    found = compared(folder, "compiled")
    assert found["verdict"] in ("identical", "rounding")
    assert found["first_divergence"] is None


def test_what_compiling_has_changed_is_found_in_the_first_forward_pass(folder: Path) -> None:
    found = compared(folder, "changed")
    assert found["verdict"] == "different"
    assert (found["loss"]["first_step_differs"], found["loss"]["verdict"]) == (0, "forward")
    assert found["first_divergence"]["step"] == 0
    assert found["first_divergence"]["phase"] == "forward"
