"""At level op a tensor that an operator has made is read once, and whoever looks at it later is told the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tensight
from tensight.frameworks.torch import statistics
from tensight.records import Stats
from tensight.store import Reader

SIZE = 64  # large enough that statistics are remembered


class Written(nn.Module):
    """Changes its result in a way that leaves no trace in its version."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        y.data.mul_(3.0)
        return y


class Reshaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1).transpose(0, 1).reshape(-1, SIZE).t()


def recorded(folder: Path, level: str, *, scale: float = 1.0) -> dict[tuple[int, str, str, str], Stats]:
    """What was recorded of modules and parameters in three steps."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(SIZE, SIZE), Written(), nn.Linear(SIZE, SIZE), Reshaped(), nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with tensight.watch(net, optimizer, level=level, budget=100, run_dir=folder, quiet=True):
        for _ in range(3):
            loss = net(torch.randn(SIZE, SIZE)).pow(2).mean()
            optimizer.zero_grad()
            (loss * scale).backward()
            for parameter in net.parameters():
                parameter.grad /= scale
            optimizer.step()
    reader = Reader(folder)
    found = {}
    for step in reader.steps.numbers:
        for one in reader.steps.at(step).observations:
            info = reader.tensors[one.tensor]
            if info.kind in ("output", "activation", "output_gradient", "gradient", "weight"):
                found[step, info.kind, info.name, info.slot] = one.stats
    return found


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_level_op_says_the_same_of_modules_and_parameters_as_level_watch(tmp_path: Path, scale: float) -> None:
    watched = recorded(tmp_path / "watch", "watch", scale=scale)
    looked = recorded(tmp_path / "op", "op", scale=scale)
    assert {kind for _, kind, _, _ in watched} >= {"output", "output_gradient", "gradient", "weight"}
    for key, stats in watched.items():
        other = looked[key]
        for field in ("count", "nan", "zero", "min", "max"):
            assert getattr(other, field) == getattr(stats, field), (key, field)
        assert other.mean == pytest.approx(stats.mean, rel=1e-9, abs=1e-15), key
        assert other.l2 == pytest.approx(stats.l2, rel=1e-9), key


def test_a_result_is_not_read_again_by_modules_and_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    one = statistics.one

    def counting(tensor: torch.Tensor, *args: object) -> Stats:
        read.append(tensor.data_ptr())
        return one(tensor, *args)

    monkeypatch.setattr(statistics, "one", counting)
    net = nn.Linear(SIZE, SIZE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with tensight.watch(net, optimizer, level="op", budget=100, run_dir=tmp_path / "run", quiet=True):
        for _ in range(2):
            read.clear()
            output = net(torch.randn(SIZE, SIZE))
            assert read.count(output.data_ptr()) == 1
            optimizer.zero_grad()
            output.sum().backward()
            optimizer.step()
