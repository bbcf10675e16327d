"""Graphs that run as Python, backends that are left alone, breaks between graphs, code that was there before us."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from tensight.frameworks.torch.adapter import TorchAdapter
from tests.torch.recording import RecordingSink

Program = Callable[[], list[torch.Tensor]]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.act = nn.ReLU(inplace=True)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x))
        return self.head(self.second(self.second(x)))


class Breaking(nn.Module):
    """Each part breaks the graph, so that much of it runs between graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(Part() for _ in range(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            with torch.profiler.record_function("part"):
                x = part(x) + F.gelu(x)
        return x


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        torch._dynamo.graph_break()
        return F.relu(x)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def train(net: nn.Module, model: Callable[[torch.Tensor], torch.Tensor], steps: int = 2) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    result = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        result.append(loss.detach())
    return [*result, *(p.detach().clone() for p in net.parameters())]


def eager() -> list[torch.Tensor]:
    net = Net()
    return train(net, torch.compile(net, backend="eager", fullgraph=True))


def plain() -> list[torch.Tensor]:
    net = Net()
    return train(net, net)


def aot() -> list[torch.Tensor]:
    net = Net()
    return train(net, torch.compile(net, backend="aot_eager"))


def breaking() -> list[torch.Tensor]:
    net = Breaking()
    return train(net, torch.compile(net, backend="aot_eager"))


def watched(program: Program) -> tuple[list[torch.Tensor], RecordingSink]:
    adapter, sink = TorchAdapter(), RecordingSink()
    adapter.attach(sink)
    try:
        torch.manual_seed(0)
        result = program()
    finally:
        adapter.detach()
    assert sink.failures == []
    return result, sink


def bare(program: Program) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return program()


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))


def test_a_graph_that_runs_as_python_shows_what_the_plain_network_shows() -> None:
    expected = bare(eager)
    torch._dynamo.reset()
    result, inside = watched(eager)
    _, outside = watched(plain)
    assert same(result, expected)
    for kind in ("output", "activation", "output_gradient"):
        told = {(one.info.name, one.info.slot, one.step): one.stats for one in inside.of(kind)}
        assert told == {(one.info.name, one.info.slot, one.step): one.stats for one in outside.of(kind)}
        assert told
    assert inside.gaps == []


def test_a_value_comes_with_the_line_that_made_it() -> None:
    _, sink = watched(eager)
    (source,) = {one.info.source for one in sink.of("output", node="first")}
    assert source is not None
    assert source.code == "x = self.act(self.first(x))"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor, whose rules one of them takes, imports such
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_default_partitioner", "aot_eager_decomp_partition"])
def test_derived_graphs_that_run_as_python_show_what_the_plain_network_shows(backend: str) -> None:
    def program() -> list[torch.Tensor]:
        net = Net()
        return train(net, torch.compile(net, backend=backend))

    expected = bare(program)
    torch._dynamo.reset()
    result, inside = watched(program)
    _, outside = watched(plain)
    assert same(result, expected)
    for kind in ("output", "activation", "output_gradient"):
        told = {(one.info.name, one.info.slot, one.step): one.stats.abs_mean for one in inside.of(kind)}
        shown = {(one.info.name, one.info.slot, one.step): one.stats.abs_mean for one in outside.of(kind)}
        # what is changed in place has one value under two names: the name it has last is looked at
        assert told.keys() <= shown.keys()
        assert {name for name, _, _ in shown} - {name for name, _, _ in told} <= {"first"}
        assert told == pytest.approx({key: shown[key] for key in told}, rel=1e-5)
        assert told
    assert inside.gaps == [] or all("first" in what for what, _, _ in inside.gaps)


def test_a_derived_graph_without_a_backward_pass_is_looked_at_too() -> None:
    def program() -> list[torch.Tensor]:
        net = Net()
        model = torch.compile(net, backend="aot_eager")
        result = train(net, model, 1)
        with torch.no_grad():
            return [*result, model(torch.randn(3, 4))]

    expected = bare(program)
    torch._dynamo.reset()
    result, sink = watched(program)
    assert same(result, expected)
    assert {one.info.phase for one in sink.of("output", node="head")} >= {"forward", "evaluation"}


def test_when_a_graph_cannot_be_derived_with_marks_it_is_derived_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensight.frameworks.torch import compiled_aot

    def no_luck(*_: object) -> None:
        raise RuntimeError("no luck with marks")

    expected = bare(aot)
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_aot, "_add", no_luck)
    adapter, sink = TorchAdapter(), RecordingSink()
    adapter.attach(sink)
    try:
        result = bare(aot)
    finally:
        adapter.detach()
    assert same(result, expected)
    assert {(where, str(error)) for where, error in sink.failures} == {("torch.compile", "no luck with marks")}


def test_another_backend_is_left_alone_and_said() -> None:
    def mine(model: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        assert "tensight" not in str(model.graph)
        return model.forward

    def program() -> list[torch.Tensor]:
        net = Net()
        return train(net, torch.compile(net, backend=mine))

    expected = bare(program)
    torch._dynamo.reset()
    result, sink = watched(program)
    assert same(result, expected)
    assert sink.names("output") == [""]
    ((what, reason, remedy),) = sink.gaps
    assert what == "the inside of net"
    assert "mine" in reason
    assert remedy


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch.compile itself asks for it
def test_what_runs_between_graphs_is_compiled_as_without_us() -> None:
    expected = bare(breaking)
    before = {name: dict(counters[name]) for name in ("stats", "graph_break")}
    torch._dynamo.reset()
    counters.clear()
    result, sink = watched(breaking)
    assert same(result, expected)
    assert {name: dict(counters[name]) for name in before} == before
    assert sum(before["graph_break"].values()) > 0
    assert {"parts.0", "parts.9"} <= set(sink.names("output"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor imports what is deprecated
def test_when_inductor_fails_with_marks_it_is_asked_again_without(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def compile_fx(model: torch.fx.GraphModule, inputs: object, config_patches: dict, **more: object) -> object:
        given.append(sorted(config_patches))
        if config_patches:
            config_patches["pre_grad_custom_pass"](model.graph)
            assert "tensight.mark" in str(model.graph)
            raise RuntimeError("no luck with marks")
        assert "tensight" not in str(model.graph)
        return model.forward

    def program() -> list[torch.Tensor]:
        net = Net()
        return train(net, torch.compile(net))

    expected = bare(plain)
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    adapter, sink = TorchAdapter(), RecordingSink()
    adapter.attach(sink)
    try:
        result = bare(program)
    finally:
        adapter.detach()
    assert same(result, expected)
    assert given == [["joint_custom_pre_pass", "pre_grad_custom_pass"], []]
    assert [(where, str(error)) for where, error in sink.failures] == [("torch.compile", "no luck with marks")]


def test_code_that_was_compiled_before_is_noticed() -> None:
    net = Net()
    model = torch.compile(net, backend="eager")
    train(net, model)
    _, sink = watched(lambda: train(net, model))
    ((what, reason, remedy),) = sink.gaps
    assert (what, "before" in reason, "reset" in remedy) == ("the inside of net", True, True)


def test_recompilations_for_another_shape_are_counted_with_their_reason() -> None:
    net = Net()
    model = torch.compile(net, backend="eager", dynamic=False)

    def program() -> list[torch.Tensor]:
        return [model(torch.ones(rows, 4)).sum() for rows in (2, 3, 4)]

    _, sink = watched(program)
    told = sink.kinds("compile")
    assert [values["recompiles"] for values in told] == [0, 1, 2]
    assert "size" in told[-1]["reason"]


def test_recompilations_are_counted_with_their_reason() -> None:
    net = Net()
    net.number = 0  # type: ignore[assignment]

    @torch.compile(backend="eager")
    def model(x: torch.Tensor) -> torch.Tensor:
        return net(x) * net.number

    def program() -> list[torch.Tensor]:
        for number in range(3):
            net.number = float(number)  # type: ignore[assignment]
            train(net, model, 1)
        return []

    _, sink = watched(program)
    told = sink.kinds("compile")
    assert [values["again"] for values in told] == list(range(len(told)))
    assert told[-1]["recompiles"] == len(told) - 1 > 0
    assert "number" in told[-1]["reason"]
