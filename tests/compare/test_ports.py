"""A network in PyTorch and its port to MindSpore: a clean port agrees, a mistake in it is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
import torch
from mindspore import nn as cells
from torch import nn

import tensight

SHAPES = {
    "c1.weight": (6, 3, 3, 3),
    "c1.bias": (6,),
    "fc1.weight": (8, 6),
    "fc1.bias": (8,),
    "head.weight": (4, 8),
    "head.bias": (4,),
}


def weights() -> dict[str, Any]:
    random = np.random.RandomState(0)
    return {name: (random.randn(*shape) * 0.3).astype(np.float32) for name, shape in SHAPES.items()}


def batch() -> tuple[Any, Any]:
    random = np.random.RandomState(1)
    return random.randn(8, 3, 6, 6).astype(np.float32), random.randint(0, 4, 8).astype(np.int32)


class Original(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(6, 8)
        self.ln = nn.LayerNorm(8)
        self.act = nn.GELU()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.relu(self.bn(self.c1(x))).mean((2, 3))
        return self.head(self.act(self.ln(self.fc1(x))))


class Port(cells.Cell):
    def __init__(self, eps: float = 1e-5, approximate: bool = False, momentum: float = 0.9) -> None:
        super().__init__()
        self.c1 = cells.Conv2d(3, 6, 3, has_bias=True)
        self.bn = cells.BatchNorm2d(6, momentum=momentum)
        self.relu = cells.ReLU()
        self.fc1 = cells.Dense(6, 8)
        self.ln = cells.LayerNorm((8,), epsilon=eps)
        self.act = cells.GELU(approximate=approximate)
        self.head = cells.Dense(8, 4)

    def construct(self, x: Any) -> Any:
        x = self.relu(self.bn(self.c1(x))).mean((2, 3))
        return self.head(self.act(self.ln(self.fc1(x))))


def record_port(folder: Path, *, decay: float = 0.0, reduction: str = "mean", flip: bool = False, **how: Any) -> Path:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    model = Port(**how)
    model.set_train()
    values = weights()
    for name, parameter in model.parameters_and_names():
        if name in values:
            parameter.set_data(mindspore.Tensor(values[name]))
    x, y = (mindspore.Tensor(array[:, ::-1].copy() if flip and array.ndim > 1 else array) for array in batch())
    optimizer = cells.Adam(model.trainable_params(), learning_rate=1e-3, weight_decay=decay)
    loss = cells.CrossEntropyLoss(reduction=reduction)
    step = mindspore.value_and_grad(lambda a, b: loss(model(a), b), None, optimizer.parameters)
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False):
        for _ in range(3):
            _, gradients = step(x, y)
            optimizer(gradients)
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "run"
    model = Original()
    state = {**model.state_dict(), **{name: torch.tensor(value) for name, value in weights().items()}}
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = (torch.tensor(array) for array in batch())
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False):
        for _ in range(3):
            loss = nn.functional.cross_entropy(model(x), y.long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder


def test_a_clean_port_agrees_up_to_rounding(original: Path, tmp_path: Path) -> None:
    found = tensight.compare(original, record_port(tmp_path / "b"))
    assert found.verdict == "rounding"
    assert found.first_divergence is None
    assert found.loss.verdict == "none"
    assert {one.what for one in found.preflight} <= {"framework", "framework_version", "dtype"}


MISTAKES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"eps": 1e-7}, "ln", "forward", "eps"),
    ({"approximate": True}, "act", "forward", "GELU"),
    ({"momentum": 0.1}, "bn", "update", "momentum"),
    ({"flip": True}, "c1", "forward", "order of channels"),
    ({"reduction": "sum"}, "", "forward", "8 times"),
    ({"decay": 0.1}, "c1", "update", "weight_decay"),
]


@pytest.mark.parametrize(("how", "module", "phase", "cause"), MISTAKES, ids=[next(iter(row[0])) for row in MISTAKES])
def test_a_mistake_of_the_port_is_found_where_it_is(
    original: Path, tmp_path: Path, how: dict[str, Any], module: str, phase: str, cause: str
) -> None:
    first = tensight.compare(original, record_port(tmp_path / "b", **how)).first_divergence
    assert first is not None
    assert (first.module, first.module_b, first.phase, first.step) == (module, module, phase, 0)
    assert cause in first.likely_cause
