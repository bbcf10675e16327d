"""`tensight twice` and what is behind it: deterministic scripts pass, random ones are told what is random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import tensight
from tensight.cli import main
from tensight.compare.determinism import Determinism, judge
from tensight.runs import open_run

SCRIPT = """
import sys, torch
from torch import nn
if "seeded" in sys.argv: torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
x = torch.arange(32.0).reshape(8, 4) / 32
for step in range(3):
    loss = model(x).square().mean()
    model.zero_grad(); loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
"""


class Noisy(Dataset[Any]):
    """Draws its values anew."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        return torch.from_numpy(np.random.rand(4).astype(np.float32)), torch.zeros(1)


class Net(nn.Module):
    def __init__(self, drop: float) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 8)
        self.drop = nn.Dropout(drop)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(torch.relu(self.fc(x))))


def once(folder: Path, turn: int, random_part: str) -> Path:
    """A run in which all is seeded but one part."""
    seeds = {part: turn if part == random_part else 0 for part in ("init", "data", "shuffle", "dropout")}
    torch.manual_seed(seeds["init"])
    model = Net(0.5 if random_part == "dropout" else 0.0)
    torch.manual_seed(seeds["data"])
    np.random.seed(seeds["data"])
    data: Any = Noisy() if random_part == "data" else TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    generator = torch.Generator().manual_seed(seeds["shuffle"])
    loader = DataLoader(data, batch_size=4, shuffle=random_part == "shuffle", generator=generator)
    torch.manual_seed(seeds["dropout"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder


def both(folder: Path, random_part: str) -> Determinism:
    first, second = (open_run(once(folder / str(turn), turn, random_part)).rank(0) for turn in (1, 2))
    return judge(first, second)


def test_a_seeded_training_is_deterministic(tmp_path: Path) -> None:
    found = both(tmp_path, "nothing")
    assert found.deterministic
    assert found.sources == []
    assert found.first_step is None


@pytest.mark.parametrize(
    ("part", "tensor"),
    [("init", "fc.weight"), ("data", "input.0"), ("shuffle", "input.0"), ("dropout", "drop.output.0")],
)
def test_what_is_random_is_named(tmp_path: Path, part: str, tensor: str) -> None:
    found = both(tmp_path, part)
    assert not found.deterministic
    assert (found.first_step, found.first_tensor) == (0, tensor)
    assert [source.kind for source in found.sources] == [part]
    assert "seed" in found.sources[0].fix


@pytest.mark.parametrize("seeded", [True, False])
def test_the_command_runs_a_script_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str], seeded: bool) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    main(["twice", "--json", str(tmp_path / "train.py"), *(["seeded"] if seeded else [])])
    found = json.loads(capsys.readouterr().out)
    assert found["deterministic"] is seeded
    if not seeded:
        assert (found["first_step"], found["first_tensor"]) == (0, "0.weight")
        assert found["sources"][0]["kind"] == "init"
        assert {"kind", "where", "fix"} <= set(found["sources"][0])


def test_a_script_that_is_not_there_is_said_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["twice", str(tmp_path / "nothing.py")])
    assert stopped.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_seed_all_seeds_python_numpy_and_torch() -> None:
    def draw() -> tuple[float, float, float]:
        tensight.seed_all(5)
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    assert draw() == draw()
    tensight.seed_all(6)
    assert random.random() != draw()[0]
