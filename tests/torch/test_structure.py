"""One step after warm-up is recorded operator by operator: what runs where, from which line, and what leads to what."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.data import DataLoader, TensorDataset

import tensight
from tensight.frameworks.torch.structure_values import StorageWeakRef, Values
from tensight.records.graph import Graph, GraphNode
from tensight.records.graph_builder import GraphBuilder
from tensight.store import Reader


class Block(nn.Module):
    """A residual block with an operator of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(8) for _ in range(4))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 4, micro: int = 1) -> list[float]:
    """A loop as anybody writes it."""
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(micro):
            x = torch.randn(6, 8, generator=generator)
            loss = functional.cross_entropy(model(x), torch.arange(6) % 3)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def recorded(folder: Path, model: nn.Module, work: Callable[[torch.optim.Optimizer], object]) -> Graph:
    """The graph of a training that is watched."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with tensight.watch(model, optimizer, run_dir=folder / "run", quiet=True):
        work(optimizer)
    graph = Reader(folder / "run").graph("step 2")
    assert graph is not None
    return graph


def operators(graph: Graph, phase: str, path: str) -> list[GraphNode]:
    return [
        node
        for node in graph.nodes
        if node.kind == "operator" and node.phase == phase and graph.scopes[node.scope].path == path
    ]


def forget_compiled() -> None:
    """Other tests of this process may have compiled something: the framework counts that for ever."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()


@pytest.fixture(autouse=True)
def nothing_is_compiled() -> None:
    forget_compiled()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    forget_compiled()
    torch.manual_seed(0)
    model = Net()
    return recorded(tmp_path_factory.mktemp("graph"), model, lambda optimizer: train(model, optimizer))


def test_operators_stand_in_their_modules_with_their_kind(graph: Graph) -> None:
    assert [node.name for node in operators(graph, "forward", "layers.2")] == ["aten.tanh", "aten.add"]
    assert "aten.native_layer_norm" in [node.name for node in operators(graph, "forward", "layers.2.norm")]
    assert "aten.tanh_backward" in [node.name for node in operators(graph, "backward", "layers.2")]
    assert any(node.phase == "update" for node in graph.nodes)
    assert {scope.type for scope in graph.scopes if scope.path == "layers.2.fc"} == {"Linear"}


def test_tensors_flow_from_parameters_and_operators_into_operators(graph: Graph) -> None:
    (product,) = [node for node in operators(graph, "forward", "layers.2.fc") if node.name == "aten.addmm"]
    sources = [graph.nodes[place] for place in product.inputs]
    assert (sources[0].kind, sources[0].name) == ("parameter", "bias")
    assert sources[1].name == "aten.native_layer_norm"
    transposed = sources[2]
    assert graph.nodes[transposed.inputs[0]].name == "weight"
    tanh, add = operators(graph, "forward", "layers.2")
    assert graph.nodes[tanh.inputs[0]] is product
    assert {graph.nodes[place].name for place in add.inputs} == {"aten.add", "aten.tanh"}
    assert product.outputs == ("float32[6, 8]",)


def test_every_backward_operator_is_linked_to_its_forward_operator(graph: Graph) -> None:
    backward = [node for node in graph.nodes if node.phase == "backward"]
    linked = [node for node in backward if node.forward >= 0]
    assert len(linked) >= len(backward) - 1  # all but the first gradient, of ones
    (tanh,) = [
        node for node in linked if node.name == "aten.tanh_backward" and graph.scopes[node.scope].path[-1] == "2"
    ]
    assert graph.nodes[tanh.forward].name == "aten.tanh"


def test_updates_read_the_gradients_that_the_backward_pass_has_made(graph: Graph) -> None:
    updates = [node for node in graph.nodes if node.phase == "update" and node.kind == "operator"]
    read = {graph.nodes[place].phase for node in updates for place in node.inputs}
    assert "backward" in read
    assert any(graph.nodes[place].kind == "parameter" for node in updates for place in node.inputs)


def test_an_operator_knows_the_lines_of_the_users_code(graph: Graph) -> None:
    tanh = operators(graph, "forward", "layers.2")[0]
    frames = [graph.frames[place] for place in graph.stacks[tanh.stack]]
    assert frames[0].user
    assert frames[0].code == "return x + torch.tanh(self.fc(self.norm(x)))"
    assert [frame.function for frame in frames if frame.user][:3] == ["forward", "forward", "train"]
    assert any(not frame.user and frame.file == "torch/nn/modules/module.py" for frame in frames)
    assert not any("tensight/" in frame.file for frame in frames if not frame.user)
    assert "class Block(nn.Module):" in graph.files[frames[0].file]


def test_losses_and_weights_stay_the_same_to_the_last_bit(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    twin = copy.deepcopy(model)
    torch.manual_seed(2)
    bare = train(twin, torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9), 5)
    torch.manual_seed(2)
    seen: list[float] = []
    made = recorded(tmp_path, model, lambda optimizer: seen.extend(train(model, optimizer, 5)))
    assert seen == bare
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), twin.state_dict().values()))
    assert any(node.name == "aten.relu_" for node in made.nodes)
    assert _get_current_dispatch_mode() is None


def test_an_operator_in_place_is_what_later_readers_read(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    made = recorded(tmp_path, model, lambda optimizer: train(model, optimizer))
    (last,) = [node for node in operators(made, "forward", "2") if node.name == "aten.addmm"]
    assert "aten.relu_" in {made.nodes[place].name for place in last.inputs}


def test_passes_of_gradient_accumulation_are_recorded_once(tmp_path: Path) -> None:
    model = Net()
    made = recorded(tmp_path, model, lambda optimizer: train(model, optimizer, micro=3))
    assert len([node for node in operators(made, "forward", "layers.2") if node.name == "aten.tanh"]) == 1
    assert any(node.phase == "update" for node in made.nodes)


def test_a_batch_comes_from_outside_however_a_loader_makes_it(tmp_path: Path) -> None:
    model = Net()
    loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.arange(24) % 3), batch_size=6)

    def loop(optimizer: torch.optim.Optimizer) -> None:
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    made = recorded(tmp_path, model, loop)
    assert sorted(node.outputs for node in made.nodes if node.kind == "input") == [("float32[6, 8]",), ("int64[6]",)]
    assert not any(node.name in ("aten.stack", "aten.select") for node in made.nodes)


def test_two_networks_keep_their_names(tmp_path: Path) -> None:
    generator, judge = nn.Linear(4, 8), nn.Linear(8, 1)

    def loop(first: torch.optim.Optimizer) -> None:
        second = torch.optim.SGD(judge.parameters(), lr=0.1)
        for _ in range(4):
            fake = generator(torch.randn(5, 4))
            second.zero_grad()
            judge(fake.detach()).mean().backward()
            second.step()
            first.zero_grad()
            judge(fake).mean().backward()
            first.step()

    made = recorded(tmp_path, generator, loop)
    assert {"generator", "judge"} <= {scope.network for scope in made.scopes}
    calls = [node for node in made.nodes if node.name == "aten.addmm" and made.scopes[node.scope].network == "judge"]
    assert len(calls) == 2


def test_inference_has_a_graph_too(tmp_path: Path) -> None:
    model = Net().eval()
    with tensight.watch(model, run_dir=tmp_path / "run", quiet=True), torch.no_grad():
        for _ in range(5):
            model(torch.ones(2, 8))
    graphs = Reader(tmp_path / "run").graphs
    made = Reader(tmp_path / "run").graph(next(iter(graphs)))
    assert made is not None
    assert [node.name for node in operators(made, "evaluation", "layers.0")] == ["aten.tanh", "aten.add"]


def test_inside_a_mode_of_the_users_each_network_is_one_region(tmp_path: Path) -> None:
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return function(*args, **(kwargs or {}))

    model = Net()

    def loop(optimizer: torch.optim.Optimizer) -> None:
        with Own():
            train(model, optimizer)

    made = recorded(tmp_path, model, loop)
    assert [node.name for node in made.nodes if node.kind == "region"] == ["Net"]
    assert "a dispatch mode of its own" in made.note
    assert {node.kind for node in made.nodes} == {"region", "parameter"}


def test_compiled_code_is_one_region(tmp_path: Path) -> None:
    model = Net()
    compiled = torch.compile(model, backend="eager")
    made = recorded(tmp_path, compiled, lambda optimizer: train(compiled, optimizer))  # type: ignore[arg-type]
    (region,) = [node for node in made.nodes if node.kind == "region"]
    assert region.name == "compiled Net"
    assert len(region.inputs) == len(list(model.parameters()))
    torch.compiler.reset()


def test_a_training_that_ends_in_the_structure_step_leaves_no_mode_behind(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def breaks() -> None:
        with tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True):
            train(model, optimizer, 2)
            model(torch.ones(2, 8))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        breaks()
    assert _get_current_dispatch_mode() is None
    assert Reader(tmp_path / "run").graph("step 2") is None


def test_nothing_of_the_look_is_left_when_its_step_is_over(tmp_path: Path) -> None:
    def remembered() -> list[object]:
        return [one for one in gc.get_objects() if type(one) in (Values, GraphBuilder, StorageWeakRef)]

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    left = []
    gc.collect()
    before = len(remembered())
    gc.disable()  # what hangs in a cycle would be kept until somebody collects it
    try:
        with tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True):
            for _ in range(5):
                x = torch.randn(6, 8)
                optimizer.zero_grad()
                functional.cross_entropy(model(x), torch.arange(6) % 3).backward()
                left.append(len(remembered()) - before)
                optimizer.step()
            left.append(len(remembered()) - before)
    finally:
        gc.enable()
    assert max(left) > 0, "the step was not looked at"
    assert left[-1] == 0, left
