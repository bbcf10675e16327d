"""Programs that only infer: what their networks answer is what can go wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ran = subprocess.CompletedProcess[str]
Tensight = Callable[..., Ran]

NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8, bias=False)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h = self.fc(x)
        h = h / h.pow(2).sum(1, keepdim=True).sqrt()
        return self.out(h)

torch.manual_seed(0)
net = Net().eval()
with torch.inference_mode():
    for i in range(20):
        x = torch.randn(4, 8)
        {line}
        y = net(x)
"""

ATTENTION = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x, shut):
        score = x @ self.key(x).T
        score = score.masked_fill(shut, float("-inf"))
        return torch.softmax(score, -1) @ x

torch.manual_seed(0)
net = Attention().to({dtype}).eval()
with torch.no_grad():
    for i in range(20):
        x, shut = torch.randn(6, 8, dtype={dtype}), torch.ones(6, 6).triu(1).bool()
        {line}
        y = net(x, shut)
"""

HEALTHY = """
import torch
from torch import nn

class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(x).masked_fill(torch.tensor([0, 0, 1, 0, 1]).bool(), float("-inf"))  # ruled out

class Correlation(nn.Module):
    def forward(self, a, b):
        return (a * b).mean() / (a.std() * b.std())  # NaN where one of them is constant

net, metric = Scores().eval(), Correlation()
with torch.no_grad():
    for i in range(20):
        y = net(torch.randn(4, 8))
        metric(torch.zeros(4), torch.zeros(4))
"""

MINDSPORE = """
import numpy as np
import mindspore as ms
from mindspore import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(8, 8, has_bias=False)
        self.out = nn.Dense(8, 2)

    def construct(self, x):
        h = self.fc(x)
        h = h / ops.sqrt((h * h).sum(axis=1, keepdims=True))
        return self.out(h)

ms.set_seed(0)
net = Net()
net.set_train(False)
rng = np.random.default_rng(0)
for i in range(20):
    x = rng.normal(size=(4, 8)).astype(np.float32)
    {line}
    y = net(ms.Tensor(x))
"""


def findings(run: Tensight, folder: Path, text: str) -> list[dict[str, Any]]:
    (folder / "infer.py").write_text(text)
    ran = run(folder, "run", "--no-page", "--report", "report.json", "infer.py")
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads((folder / "report.json").read_text())["findings"]
    return found


@pytest.mark.parametrize("text", [NETWORK, MINDSPORE], ids=["torch", "mindspore"])
@pytest.mark.parametrize(("bad", "kind"), [("x / 0.0", "inf"), ("-abs(x) / 0.0", "-inf")])
def test_an_input_that_is_not_finite_is_named_with_its_step(
    run_tensight: Tensight, tmp_path: Path, text: str, bad: str, kind: str
) -> None:
    (found,) = findings(run_tensight, tmp_path, text.format(line=f"x = {bad} if i == 12 else x"))
    assert (found["fault"], found["since_step"]) == ("nan_in_input", 12)
    assert found["title"] == f"the input of step 12 holds {kind}"
    assert found["where"]["module"] == "fc"
    assert "loss" not in found["why"]


@pytest.mark.parametrize(
    ("text", "optimizer"),
    [
        (NETWORK, "torch.optim.Adam(net.parameters())"),
        (MINDSPORE, "nn.Adam(net.trainable_params())"),
    ],
    ids=["torch", "mindspore"],
)
def test_an_optimizer_that_came_with_a_checkpoint_and_never_steps_hides_no_step(
    run_tensight: Tensight, tmp_path: Path, text: str, optimizer: str
) -> None:
    begin = "with torch.inference_mode()" if "with torch" in text else "rng = np.random"
    beside = text.replace(begin, f"optimizer = {optimizer}\n{begin}")
    (found,) = findings(run_tensight, tmp_path, beside.format(line="x = x / 0.0 if i == 12 else x"))
    assert (found["fault"], found["since_step"]) == ("nan_in_input", 12)
    (tmp_path / "healthy").mkdir()
    assert findings(run_tensight, tmp_path / "healthy", beside.format(line="pass")) == []
    report = json.loads((tmp_path / "healthy" / "report.json").read_text())
    assert report["run"]["steps"] == 20
    assert report["coverage"]["optimizers"]


def test_the_operator_that_makes_the_answer_nan_is_named_with_its_line(run_tensight: Tensight, tmp_path: Path) -> None:
    (found,) = findings(run_tensight, tmp_path, NETWORK.format(line="x[2] *= i != 12"))
    assert (found["fault"], found["since_step"]) == ("division_by_zero", 12)
    assert found["where"]["code"].startswith("h = h / ")
    assert found["since"] == "forward pass"


@pytest.mark.parametrize(
    ("dtype", "line", "fault", "code"),
    [
        ("torch.float32", "shut[2] |= i == 7", "softmax_all_masked", "return torch.softmax("),
        ("torch.float16", "x = x * 600 if i == 7 else x", "fp16_overflow", "score = x @"),
    ],
)
def test_what_made_the_nan_of_an_attention_is_named_by_running_the_step_again(
    run_tensight: Tensight, tmp_path: Path, dtype: str, line: str, fault: str, code: str
) -> None:
    (found,) = findings(run_tensight, tmp_path, ATTENTION.format(dtype=dtype, line=line))
    assert (found["fault"], found["since_step"], found["replay"]) == (fault, 7, "exact")
    assert found["where"]["code"].startswith(code)


def test_the_cell_that_first_returns_nan_is_named_in_mindspore(run_tensight: Tensight, tmp_path: Path) -> None:
    (found,) = findings(run_tensight, tmp_path, MINDSPORE.format(line="x[2] *= i != 12"))
    assert (found["since_step"], found["where"]["module"]) == (12, "out")
    assert "--steps 12" in found["fix"][0]  # an inference of MindSpore is not run again


def test_a_row_that_is_masked_in_part_is_left_in_peace(run_tensight: Tensight, tmp_path: Path) -> None:
    assert findings(run_tensight, tmp_path, ATTENTION.format(dtype="torch.float32", line="shut[2, 1] = True")) == []


def test_scores_that_are_ruled_out_and_measures_without_weights_are_left_in_peace(
    run_tensight: Tensight, tmp_path: Path
) -> None:
    assert findings(run_tensight, tmp_path, HEALTHY) == []
