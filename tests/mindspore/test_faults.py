"""Faulty trainings are named and located by the first finding; their healthy twins are left in peace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mindspore.faults.programs import PROGRAMS
from tests.reporting import report

pytestmark = pytest.mark.timeout(1200)  # the first test of a group waits for a process that runs the whole group
ROOT = Path(__file__).parents[2]
GROUP = 6
Results = dict[tuple[str, bool], dict[str, Any]]
_done: dict[int, Results] = {}


@pytest.fixture
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What is found in a program and in others of its group: one process for several, since MindSpore starts slowly."""
    names = list(PROGRAMS)
    group = names.index(request.node.callspec.params["name"]) // GROUP
    if group not in _done:
        _done[group] = found_in(names[group * GROUP : (group + 1) * GROUP], tmp_path_factory.mktemp("runs"))
    return _done[group]


def found_in(names: list[str], folder: Path) -> Results:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mindspore.faults.run_all", str(folder), *names],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1100,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {(answer["name"], answer["bad"]): answer for answer in answers}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_fault_is_named_and_located_by_the_first_finding(name: str, results: Results) -> None:
    expected = PROGRAMS[name].expected
    result = results[name, True]
    assert result["lost"] == []
    assert result["findings"], result["words"]
    first = result["findings"][0]
    assert first["fault"] == expected.fault, result["words"]
    assert expected.where in first["place"], result["words"]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_its_healthy_twin_is_left_in_peace(name: str, results: Results) -> None:
    result = results[name, False]
    assert result["lost"] == []
    assert result["findings"] == [], result["words"]


@pytest.mark.parametrize(("name", "status"), [("sqrt_at_zero", "exact"), ("sqrt_at_zero_in_a_graph", "close")])
def test_a_bad_step_is_run_again_exactly_in_pynative_mode_and_closely_in_graph_mode(
    name: str, status: str, results: Results
) -> None:
    assert results[name, True]["findings"][0]["replay"] == status


def test_twelve_faults_and_more_are_tried_and_three_in_graph_mode() -> None:
    assert len({program.expected.fault for program in PROGRAMS.values()}) >= 12
    assert sum(program.graph for program in PROGRAMS.values()) >= 3


BOTH = """
import torch
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

print(torch.ones(2).sum())
ms.set_seed(1)
net = nn.Dense(4, 4)
net.set_train()
update = nn.SGD(net.trainable_params(), 0.1)
gradient = ms.value_and_grad(lambda x: ops.log(net(x) * 0.0).mean(), None, update.parameters)
for _ in range(2):
    _, found = gradient(Tensor(np.ones((2, 4), np.float32)))
    update(found)
"""


def test_a_run_is_named_after_the_framework_that_trains_where_two_are_imported(tmp_path: Path) -> None:
    script = tmp_path / "both.py"
    script.write_text(BOTH)
    told = report(tmp_path, script, timeout=1100)
    assert told["run"]["framework"] == "mindspore"
    first = told["findings"][0]
    assert first["fault"] == "log_of_zero"
    assert first["where"]["op"] == "ops.log"
    assert first["replay"] == "exact"
