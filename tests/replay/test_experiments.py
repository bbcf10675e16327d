"""Experiments in a copy of the training: the operator with one thing changed, the steps at a tenth of the rate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensight.frameworks.rewinds import Rewinds, Seen
from tensight.frameworks.torch.replay_experiments import trials
from tensight.records import Replay
from tensight.replay.experiments import on_operator


def seen(operator: str, *inputs: np.ndarray[Any, Any], phase: str = "forward", **facts: Any) -> Seen:
    known = {f"in.{at}.dtype": str(value.dtype) for at, value in enumerate(inputs)}
    replay = Replay(3, "exact", operator=operator, phase=phase, facts=known | facts)  # type: ignore[arg-type]
    return Seen(replay, {f"input.{at}": value for at, value in enumerate(inputs)})


def tried(case: Seen) -> dict[str, str]:
    return {name: trial() for name, trial in trials(case).items()}


def test_an_overflow_is_finite_in_a_wider_format() -> None:
    found = tried(seen("aten.exp", np.array([1.0, 100.0], np.float32)))
    assert found == {"in float64": "finite", "with inputs a tenth as large": "finite"}


def test_a_half_precision_overflow_is_finite_in_float32() -> None:
    values = np.array([300.0, 2.0], np.float16)
    found = tried(seen("aten.mul", values, values))
    assert (found["in float32"], found["in float64"]) == ("finite", "finite")


def test_a_log_of_zero_is_bad_in_any_format_and_good_away_from_zero() -> None:
    found = tried(seen("aten.log", np.array([0.0, 0.5], np.float32)))
    assert (found["in float64"], found["with 1e-08 in place of 0"]) == ("not finite", "finite")


def test_the_gradient_of_a_root_at_zero_is_tried_in_its_backward_pass() -> None:
    found = tried(seen("aten.sqrt", np.array([0.0, 4.0], np.float32), phase="backward"))
    assert (found["in float64"], found["with 1e-08 in place of 0"]) == ("not finite", "finite")


def test_a_fault_that_does_not_show_alone_is_not_experimented_with() -> None:
    assert tried(seen("aten.exp", np.array([1.0], np.float32))) == {}
    assert tried(seen("aten.no_such_operator", np.array([1.0], np.float32))) == {}
    assert tried(seen("aten.exp")) == {}


class Slow:
    """Offers a trial that raises, one that takes long, and one after it."""

    def __init__(self) -> None:
        self.time = 0.0

    def trials(self, case: Seen) -> dict[str, Any]:
        def fails() -> str:
            raise RuntimeError("not for this format")

        def lasts() -> str:
            self.time += 100.0
            return "finite"

        return {"failing": fails, "slow": lasts, "later": lasts}


def test_experiments_end_when_their_time_is_over_and_errors_are_left_out() -> None:
    slow = Slow()
    rewinds: Rewinds = slow  # type: ignore[assignment]
    assert on_operator(rewinds, seen("aten.exp"), now=lambda: slow.time) == {"tried slow": "finite"}


PROGRAM = """
import torch
from torch import nn

torch.manual_seed(2)
x = torch.randn(256, 8)
y = x[:, :1] * 2 - x[:, 1:2] ** 2
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1.5)
for step in range(40):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
"""


def test_a_tenth_of_the_learning_rate_is_tried_in_a_copy_and_the_training_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(*command: str) -> str:
        ran = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    bare = run("train.py")
    watched = run("-m", "tensight", "run", "--no-page", "--report", "report.json", "train.py")
    assert watched == bare
    report = json.loads((tmp_path / "report.json").read_text())
    (finding,) = report["findings"]
    assert finding["fault"] == "lr_too_high"
    tried = {one["what"]: one["value"] for one in finding["evidence"] if one["what"].startswith("tried ")}
    assert tried["tried in float64"] == "finite"
    assert report["lost"] == []
