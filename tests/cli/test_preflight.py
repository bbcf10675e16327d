"""`tensight preflight`, as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tensight.cli import main

Ran = subprocess.CompletedProcess[str]
Tensight = Callable[..., Ran]

WITH_LOADER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(4, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
y = torch.randint(0, 3, (256,))
x = torch.randn(3, 6)[y] + 0.3 * torch.randn(256, 6)
for epoch in range(100):
    for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        inputs.zero_()
        print("loss", loss.item().hex())
        with open("log.txt", "a") as log:
            log.write("step\\n")
"""

NO_GRADIENT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for step in range(1000):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x.sum(1))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def test_a_healthy_training_passes_and_is_left_as_it_is(tmp_path: Path, run_tensight: Tensight) -> None:
    (tmp_path / "train.py").write_text(WITH_LOADER)
    ran = run_tensight(tmp_path, "preflight", "--json", "--steps", "12", "train.py")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    checks = {one["check"]: one for one in told["checks"]}
    assert told["ok"] is True
    assert told["findings"] == []
    assert {name for name, one in checks.items() if one["mark"] == "bad"} == set()
    assert checks["one batch can be learnt"]["mark"] == "ok", checks["one batch can be learnt"]
    assert checks["loss at the start"]["mark"] == "ok"
    # twelve steps that train, whatever ran before; what a copy did is seen nowhere
    assert (tmp_path / "log.txt").read_text().count("step") == 11  # the twelfth ends inside its update
    printed = [line for line in ran.stderr.splitlines() if line.startswith("loss")]
    plain = subprocess.run(
        [sys.executable, "-c", WITH_LOADER.replace("range(100)", "range(1)")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert printed == plain.stdout.splitlines()[: len(printed)]
    assert len(printed) == 11


def test_a_faulty_training_fails_with_ticks_findings_and_reasons(tmp_path: Path, run_tensight: Tensight) -> None:
    (tmp_path / "train.py").write_text(NO_GRADIENT)
    ran = run_tensight(tmp_path, "preflight", "--fail-on", "finding", "train.py")
    assert ran.returncode == 3, ran.stderr
    lines = ran.stdout.splitlines()
    assert any(line.startswith("✔ inputs are finite") for line in lines)
    assert any(line.startswith("✖ every parameter moves") for line in lines)
    assert any(line.startswith("– one batch can be learnt") and "not tried" in line for line in lines)
    assert lines[-1].startswith("20 steps:")


def test_a_script_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["preflight", str(tmp_path / "none.py")])
    assert stop.value.code == 2
    assert "there is no such script" in capsys.readouterr().err


def test_switched_off_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TENSIGHT", "off")
    with pytest.raises(SystemExit) as stop:
        main(["preflight", "train.py"])
    assert stop.value.code == 2
    assert "TENSIGHT=off" in capsys.readouterr().err
