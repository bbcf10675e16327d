"""Compiled code is looked into step by step, by one copy of the process that stays."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import tensight
from tensight.frameworks.mindspore import inside, orders
from tensight.records.graph import Graph
from tensight.replay import copying, shadowing
from tensight.runs import Run
from tensight.session.rewind import Rewind
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tests.mindspore.networks import Way, run

pytestmark = pytest.mark.timeout(1200)
STEPS = 6
Seen = dict[tuple[int, str, str, str], list[float]]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "ENOUGH", 1e9)
    monkeypatch.setattr(shadowing, "PATIENCE", 500.0)
    monkeypatch.setattr(shadowing, "STILL", 60.0)
    monkeypatch.setattr(copying, "LIMIT", 500.0)


def watched(program: Callable[[], Any], folder: Path) -> Run:
    settings = Settings(run_dir=folder, page=False, budget=100.0)
    session = Session(settings, Terminal(io.StringIO()), lambda made: [Rewind(made.recorder, folder)])
    session.start()
    try:
        program()
    finally:
        session.finish("finished", script_exit=0)
    assert session.recorder.lost == {}
    return tensight.open(folder)


def insides(found: Run) -> Seen:
    """Mean magnitudes of what is inside, by step, kind, cell and place."""
    seen: Seen = {}
    for step in found.steps:
        for one in step.observations:
            info = found.tensors[one.tensor]
            if info.kind in ("output", "activation", "output_gradient", "gradient") and info.node:
                key = (step.step, info.kind, info.node, info.slot)  # calls of one cell come in their order
                seen.setdefault(key, []).append(one.stats.abs_mean or 0.0)
    return seen


def graph_of(found: Run) -> Graph:
    (name,) = found.readers[0].graphs
    graph = found.readers[0].graph(name)
    assert graph is not None
    return graph


def operators(found: Run) -> list[tuple[str, str, tuple[int, ...], list[str]]]:
    """Operators of the recorded structure: name, cell, what they are given, and the user's innermost line."""
    graph = graph_of(found)
    assert sum(node.kind == "operator" for node in graph.nodes) > 10
    return [
        (
            node.name,
            graph.scopes[node.scope].path,
            node.inputs,
            [graph.frames[place].code for place in graph.stacks[node.stack]][:1] if node.stack >= 0 else [],
        )
        for node in graph.nodes
    ]


@pytest.mark.parametrize("loop", ["functional", "model"])
def test_one_copy_shows_every_step_as_pynative_mode_does(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: copies.append(1) or fork())
    in_graph = watched(lambda: run(Way("lenet", "graph", loop), STEPS), tmp_path / "graph")
    compiled = insides(in_graph)
    assert len(copies) <= 2  # what is asked of tensors may change once, after the first step
    in_python = watched(lambda: run(Way("lenet", "pynative", loop), STEPS), tmp_path / "plain")
    plain = insides(in_python)
    same = operators(in_python)
    assert operators(in_graph)[: len(same)] == same  # of `Model.train` the copy sees the loss too
    assert "copy of the process" in graph_of(in_graph).note
    assert set(compiled) == set(plain)
    for key, values in plain.items():
        assert compiled[key] == pytest.approx(values, rel=1e-3, abs=1e-7), key


class Part(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.second = nn.Dense(8, 2)

    @ms.jit
    def construct(self, x: Tensor) -> Tensor:
        return self.second(ops.relu(self.first(x)))


def batches() -> list[tuple[Tensor, Tensor]]:
    random = np.random.RandomState(7)
    return [(Tensor(random.randn(8, 4).astype("f")), Tensor(random.randn(8, 2).astype("f"))) for _ in range(STEPS)]


def part_under_jit() -> None:
    ms.set_seed(1)
    net = Part()
    net.set_train()
    update = nn.SGD(net.trainable_params(), 0.1)
    gradient = ms.value_and_grad(lambda x, y: ops.mse_loss(net(x), y), None, update.parameters)
    for x, y in batches():
        update(gradient(x, y)[1])


def test_what_jit_runs_in_a_loop_of_python_is_shown_once_in_each_step(tmp_path: Path) -> None:
    found = watched(part_under_jit, tmp_path)
    seen = insides(found)
    for step in range(STEPS):
        for node in ("first", "second"):
            assert len(seen[step, "output", node, "output.0"]) == 1
            assert len(seen[step, "gradient", node, "weight"]) == 1
    outputs = Counter(
        one.tensor for step in found.steps for one in step.observations if found.tensors[one.tensor].kind == "loss"
    )
    assert list(outputs.values()) == [STEPS]


class Trainer:
    """A class of the user's own, whose method is compiled."""

    def __init__(self) -> None:
        self.net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2))
        self.net.set_train()
        self.update = nn.SGD(self.net.trainable_params(), 0.1)
        self.gradient = ms.value_and_grad(self.forward, None, self.update.parameters)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.square(self.net(x) - y).mean()

    @ms.jit
    def step(self, x: Tensor, y: Tensor) -> Tensor:
        loss, found = self.gradient(x, y)
        return ops.depend(loss, self.update(found))


def trainer() -> None:
    ms.set_seed(1)
    one = Trainer()
    for x, y in batches():
        one.step(x, y)


def test_a_compiled_method_of_a_class_of_the_users_own_is_looked_into(tmp_path: Path) -> None:
    found = watched(trainer, tmp_path)
    assert found.step_count == STEPS
    assert (STEPS - 1, "output", "0", "output.0") in insides(found)
    weights = Counter(info.name for info in found.tensors.values() if info.kind == "weight")
    assert set(weights.values()) == {1}  # told by the training alone, though the copy has updated its own


def test_an_order_says_what_a_step_was_given() -> None:
    given = (Tensor(np.array([[1.5, 2.0]], np.float32)), {"flags": [True, None]}, Tensor(3, ms.int64))
    order = orders.Order(4, given, {"scale": 0.5}, [np.ones(2, np.float32), None], None)
    back = orders.read(orders.written(order))
    assert (back.step, back.kwargs) == (4, {"scale": 0.5})
    assert back.args[0].asnumpy().tolist() == [[1.5, 2.0]]
    assert back.args[1] == {"flags": [True, None]}
    assert (back.args[2].dtype, back.args[2].shape) == (ms.int64, ())
    assert back.weights[0].tolist() == [1.0, 1.0]


def test_what_cannot_be_written_down_is_said() -> None:
    with pytest.raises(orders.Unsaid):
        orders.written(orders.Order(0, (nn.ReLU(),), {}, [], None))
