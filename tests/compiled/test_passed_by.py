"""Compiled code calls its probes only in steps that are looked at whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tensight
from tensight.frameworks.torch import compiled_switch

pytestmark = [
    pytest.mark.timeout(1500),  # a C++ compiler runs for each graph
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # inductor's own
]


def probes(step) -> int:
    """How often compiled code calls a probe in a step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    return sum(event.count for event in profile.key_averages() if event.key == "tensight::probe")


def test_probes_are_called_when_somebody_looks_and_passed_by_otherwise(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True):
        compiled = torch.compile(model)

        def step() -> None:
            optimizer.zero_grad()
            compiled(torch.ones(6, 8)).pow(2).mean().backward()

        step()
        assert compiled_switch.DEEP
        looked = probes(step)
        compiled_switch.look(False)
        passed_by = probes(step)
        optimizer.step()
    assert not compiled_switch.DEEP, "whoever looked has gone"
    assert looked > 0
    assert passed_by == 0
    assert probes(step) == 0
