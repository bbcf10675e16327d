"""The change of weights is seen without holding a copy of all of them at once."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import nn

from tensight.runs import open_run
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal


def changes(folder: Path, limit: int, steps: int = 8) -> tuple[list[set[str]], float]:
    """Weights whose change was seen in each step, and the largest difference between seen and true change."""
    torch.manual_seed(0)
    session = Session(Settings(run_dir=folder, memory_limit=limit), Terminal(io.StringIO()))
    session.start()
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    true = []
    for _ in range(steps):
        before = {name: value.detach().clone() for name, value in model.named_parameters()}
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        true.append({n: float((v.detach() - before[n]).abs().double().mean()) for n, v in model.named_parameters()})
    session.finish("finished", script_exit=0)
    run = open_run(folder)
    seen, worst = [], 0.0
    for step, truth in zip(run.steps, true):
        names = set()
        for one in step.observations:
            info = run.tensors[one.tensor]
            if info.kind == "weight" and one.phase == "update" and one.stats.change is not None:
                names.add(info.name)
                worst = max(worst, abs(one.stats.change.abs_mean - truth[info.name]))
        seen.append(names)
    return seen, worst


def test_with_room_every_change_is_seen_in_every_step(tmp_path: Path) -> None:
    seen, worst = changes(tmp_path / "run", 1 << 20)
    assert all(len(names) == 6 for names in seen)
    assert worst < 1e-8


def test_with_little_room_weights_take_turns_and_none_is_compared_with_an_old_copy(tmp_path: Path) -> None:
    seen, worst = changes(tmp_path / "run", 1300)
    assert all(0 < len(names) < 6 for names in seen)
    assert set.union(*seen) == {f"{layer}.{name}" for layer in (0, 2, 4) for name in ("weight", "bias")}
    assert worst < 1e-8
