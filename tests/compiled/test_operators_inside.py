"""Level op and a compiled network: it stays compiled, bit by bit, and shows the operators whose values it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensight
from tensight.records import Observation, TensorInfo

SCRIPT = """
import json, sys, torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x):
        x = F.gelu(self.first(x))
        return self.head(self.norm(x + torch.exp(-x)))

torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
model = torch.compile(net)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
losses = []
for _ in range(4):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
counters = torch._dynamo.utils.counters
said = {
    "losses": losses,
    "weights": [weight.tolist() for weight in net.parameters()],
    "graphs": counters["stats"]["unique_graphs"],
    "breaks": sum(counters["graph_break"].values()),
}
with open(sys.argv[1], "w") as file:
    json.dump(said, file)
"""
NORM_LINE = next(at for at, line in enumerate(SCRIPT.splitlines(), 1) if "self.norm(x" in line)
pytestmark = pytest.mark.timeout(1500)  # a C++ compiler runs for each graph


class Runs:
    """The same training as it is, at level op, and with one step at full depth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train.py").write_text(SCRIPT)
        self.bare = self._train("bare")
        self.op = self._train("op", "--level", "op")
        self.one_step = self._train("one-step", "--steps", "2")  # compiled code comes out of the cache here

    def _train(self, name: str, *options: str) -> dict[str, Any]:
        command = [sys.executable]
        if options:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", name, "--report", f"{name}.report", *options]
        done = subprocess.run(
            [*command, "train.py", f"{name}.json"],
            cwd=self.folder,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=700,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return said

    def operators(self, name: str, step: int) -> dict[tuple[str, str, int], tuple[TensorInfo, Observation]]:
        """What was seen of operators inside the network: module, operator and number → the tensor."""
        run = tensight.open(str(self.folder / name))
        found = {}
        for one in run.steps[step].observations:
            info = run.tensors[one.tensor]
            if info.kind in ("operator", "operator_gradient") and info.node:
                found[info.node, f"{info.phase} {info.op}", info.call] = info, one
        return found

    def values(self, name: str, step: int) -> dict[tuple[str, str], Any]:
        """Statistics of what leaves modules."""
        run = tensight.open(str(self.folder / name))
        seen = [(run.tensors[one.tensor], one.stats) for one in run.steps[step].observations]
        return {(info.kind, info.node): stats for info, stats in seen if info.kind in ("output", "output_gradient")}

    def report(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{name}.report").read_text())
        return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("operators"))


def test_losses_weights_graphs_and_breaks_are_those_of_the_compiled_training(runs: Runs) -> None:
    assert runs.op == runs.bare
    assert runs.one_step == runs.bare
    assert (runs.bare["graphs"], runs.bare["breaks"]) == (1, 0)


def test_operators_inside_are_shown_with_module_and_line(runs: Runs) -> None:
    seen = runs.operators("op", 1)
    info, one = seen["first", "forward aten.addmm", 0]
    assert one.stats.count == 16 * 16
    assert info.shape == (16, 16)
    assert info.source is not None
    assert info.source.code == "x = F.gelu(self.first(x))"
    assert {info.source.line for (module, _, _), (info, _) in seen.items() if module == "norm" and info.source} == {
        NORM_LINE
    }


def test_operators_of_the_backward_pass_are_shown_with_the_module_they_belong_to(runs: Runs) -> None:
    seen = runs.operators("op", 1)
    assert ("head", "backward aten.mm", 0) in seen
    assert ("first", "backward aten.mm", 0) in seen
    assert {info.kind for info, _ in seen.values() if info.phase == "backward"} == {"operator_gradient"}


def test_an_operator_has_the_values_of_the_module_that_it_is_the_last_of(runs: Runs) -> None:
    outputs = runs.values("op", 3)
    for module in ("first", "head"):
        _, one = runs.operators("op", 3)[module, "forward aten.addmm", 0]
        assert one.stats == outputs["output", module]


def test_names_are_the_same_in_every_step(runs: Runs) -> None:
    assert set(runs.operators("op", 1)) == set(runs.operators("op", 3))


def test_one_step_can_be_asked_for_and_code_may_come_out_of_a_cache(runs: Runs) -> None:
    assert runs.operators("one-step", 1) == {}
    assert set(runs.operators("one-step", 2)) == set(runs.operators("op", 2))


def test_what_is_fused_is_said_and_no_probe_has_failed(runs: Runs) -> None:
    for name in ("op", "one-step"):
        report = runs.report(name)
        (gap,) = [gap for gap in report["coverage"]["gaps"] if gap["what"].startswith("operators inside")]
        assert "never keeps" in gap["reason"]
        assert not report.get("lost")
