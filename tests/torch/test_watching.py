"""What is looked at in modules and their results, and what the numbers say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tensight.records import Depth, Needs
from tensight.stats import reference

from .conftest import Watch


def test_in_place_activations_are_seen_as_they_were_returned(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    out = net[0](torch.ones(2, 3))
    expected = reference.statistics(out.detach().numpy().copy())
    net(torch.ones(2, 3)).sum().backward()
    linear = sink.of("output", node="0")[-1].stats
    assert (linear.min, linear.max) == (expected.min, expected.max)
    assert sink.of("activation", node="1")[0].stats.min == 0.0
    assert sink.names("output_gradient") == ["2", "", "1", "0#1"]
    assert sink.of("activation")[0].info.type == "ReLU"


def test_gradients_of_outputs_are_those_autograd_computes(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    (net(torch.ones(1, 3)) * torch.tensor([[2.0, 3.0]])).sum().backward()
    root, tanh = sink.of("output_gradient", node="")[0], sink.of("output_gradient", node="1")[0]
    assert (tanh.stats.min, tanh.stats.max, tanh.phase) == (2.0, 3.0, "backward")
    assert root.stats.max == 3.0


def test_a_module_called_twice_has_two_calls(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2))
    (net(torch.ones(1, 2)) - net(torch.zeros(1, 2))).sum().backward()
    assert sink.names("output") == ["0", "", "0#1", "#1"]
    net(torch.ones(1, 2)).sum().backward()
    assert sink.names("output") == ["0", "", "0#1", "#1"]


def test_a_module_that_calls_itself_is_numbered_from_outside_in(watch: Watch) -> None:
    class Recursive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
            return self.fc(x) if depth == 0 else self(self.fc(x), depth - 1)

    sink = watch()
    net = Recursive()
    net(torch.ones(1, 2)).sum().backward()
    assert sink.names("output") == ["fc", "fc#1", "fc#2", "#2", "#1", ""]


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Bag:
    def __init__(self, value: torch.Tensor) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("wrap", "slots"),
    [
        (lambda x: (x, None, [x * 2]), ["output.0", "output.2.0"]),
        (lambda x: {"logits": x, "aux": {"a": x * 2}}, ["output.logits", "output.aux.a"]),
        (lambda x: Pair(x, x * 2), ["output.first", "output.second"]),
        (lambda x: Bag(x), ["output.value"]),
    ],
)
def test_tensors_inside_nested_results_are_found_with_their_gradients(watch: Watch, wrap, slots) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor):
            return wrap(self.fc(x))

    sink = watch()
    net = Net()
    result = net(torch.ones(1, 2))
    found = [one.info.slot for one in sink.of("output", node="")]
    assert found == slots
    value = next(iter(result.values())) if isinstance(result, dict) else None
    value = result[0] if isinstance(result, tuple) else getattr(result, "first", getattr(result, "value", value))
    value.sum().backward()
    assert slots[0] in [one.info.slot for one in sink.of("output_gradient", node="")]


def test_functional_activations_are_activations_of_the_module_they_are_called_in(watch: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.fc(x))
            x = torch.sigmoid(x)
            x = x.tanh()
            x = F.gelu(x)
            x = F.leaky_relu(F.silu(x))
            return F.log_softmax(F.relu(x), dim=1)

    sink = watch()
    net = Net()
    net(torch.ones(1, 2))
    found = [(one.info.slot, one.info.type, one.info.source.line) for one in sink.of("activation", node="")]
    first = found[0][2]
    assert found == [
        ("relu.0", "relu", first),
        ("sigmoid.0", "sigmoid", first + 1),
        ("tanh.0", "tanh", first + 2),
        ("gelu.0", "gelu", first + 3),
        ("silu.0", "silu", first + 4),
        ("leaky_relu.0", "leaky_relu", first + 4),
        ("relu.1", "relu", first + 5),
        ("log_softmax.0", "log_softmax", first + 5),
    ]
    assert sink.of("activation")[0].info.source.code == "x = F.relu(self.fc(x))"


def test_activation_modules_are_not_counted_twice_and_throw_away_ones_are_functions(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Softmax(dim=1))
    nn.Sigmoid()(net(torch.ones(1, 2)))
    assert [(one.info.node, one.info.type) for one in sink.of("activation")] == [
        ("1", "ReLU"),
        ("2", "Softmax"),
        ("", "sigmoid"),
    ]


def test_comparing_with_an_activation_function_holds_as_before(watch: Watch) -> None:
    plain = nn.TransformerEncoderLayer(8, 2, 16)
    watch()
    watched = nn.TransformerEncoderLayer(8, 2, 16)
    assert plain.activation_relu_or_gelu == watched.activation_relu_or_gelu == 1
    assert nn.TransformerEncoderLayer(8, 2, 16, activation="gelu").activation_relu_or_gelu == 2
    assert nn.TransformerEncoderLayer(8, 2, 16, activation=F.gelu).activation_relu_or_gelu == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_by_checkpointing_is_no_second_call(watch: Watch, reentrant: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            self.head = nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(checkpoint(self.inner, x, use_reentrant=reentrant)))

    sink = watch()
    net = Net()
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert sink.calls == ["forward net True", "forwarded net", "backward"]
    assert sink.names("output") == ["inner.0", "inner", "head", ""]
    assert {one.phase for one in sink.of("output")} == {"forward"}
    assert len(sink.of("activation")) == 2


def test_sparse_gradients_are_judged_by_the_values_they_hold(watch: Watch) -> None:
    sink = watch()
    net = nn.Embedding(1000, 4, sparse=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.tensor([1, 1, 7])).sum().backward()
    optimizer.step()
    (gradient,) = sink.of("gradient")
    assert (gradient.stats.count, gradient.stats.min, gradient.stats.max) == (8, 1.0, 2.0)


def test_integer_complex_bool_empty_and_meta_tensors_are_judged_or_said_to_have_no_value(watch: Watch) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor):
            whole = torch.tensor([1, -2, 3])
            imaginary = torch.complex(torch.ones(2), torch.full((2,), 5.0)).conj()
            return whole, imaginary, torch.tensor([True, False]), torch.ones(0), torch.ones(2, device="meta"), x.t()

    sink = watch()
    net = Odd()
    net(torch.arange(6.0).view(2, 3))
    stats = {one.info.slot: one.stats for one in sink.of("output")}
    assert (stats["output.0"].min, stats["output.0"].max) == (-2, 3)
    assert (stats["output.1"].min, stats["output.1"].max, stats["output.1"].count) == (-5.0, 1.0, 4)
    assert (stats["output.2"].zero, stats["output.2"].positive) == (1, 1)
    assert stats["output.3"].count == 0
    assert stats["output.5"].mean == 2.5
    assert [(info.slot, error) for info, error in sink.unseen] == [("output.4", "no_value")]


def test_fake_tensors_are_left_alone(watch: Watch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    sink = watch()
    with FakeTensorMode():
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        F.mse_loss(net(torch.ones(1, 2)), torch.ones(1, 2))
    assert sink.seen == []


def test_level_module_adds_inputs_and_their_gradients(watch: Watch) -> None:
    sink = watch(level="module")
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    net(torch.ones(1, 2)).sum().backward()
    assert sink.names("module_input") == ["0", "1", "2"]
    assert sink.names("input_gradient") == ["2", "1"]


def test_tensors_are_kept_as_they_were_then(watch: Watch) -> None:
    sink = watch(level="module")
    sink.keep_tensors = True
    sink.adapter.depth_changed()
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True)).to(torch.bfloat16)
    with torch.no_grad():
        net[0].weight.fill_(-1.0)
    net(torch.ones(1, 2, dtype=torch.bfloat16))
    linear = sink.of("output", node="0")[0]
    kept = sink.kept[linear.info.id]
    assert kept.dtype == np.float32
    assert kept.min() == linear.stats.min < 0


def test_at_light_depth_only_outermost_calls_losses_and_events_are_told(watch: Watch) -> None:
    sink = watch(depth=Depth.LIGHT)
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    F.relu(net(torch.ones(1, 2))).sum().backward()
    optimizer.step()
    assert {one.info.kind for one in sink.seen} == {"loss"}
    assert sink.calls == [
        "forward net True",
        "forwarded net",
        "backward",
        "before_update SGD",
        "updated SGD",
    ]


def test_needs_are_asked_again_when_they_have_changed(watch: Watch) -> None:
    sink = watch(needs=Needs())
    net = nn.Linear(2, 2)
    net(torch.ones(1, 2))
    assert sink.of("output")[0].stats.within == ()
    sink.asked = Needs(ranges=((-100.0, 100.0),))
    sink.needs_version += 1
    sink.adapter.depth_changed()
    net(torch.ones(1, 2))
    assert sink.of("output")[-1].stats.within[0].count == 2


def test_a_cell_that_runs_very_often_is_looked_at_in_the_beginning_and_the_gap_is_said(watch: Watch) -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(40):
                x = self.cell(x)
            return x

    sink = watch()
    net = Loop()
    net(torch.ones(1, 2)).sum().backward()
    assert len(sink.of("output", node="cell")) == 32
    assert "cell" in sink.gaps[0][0]


def test_a_network_inside_torch_func_is_said_once_to_be_unseen_with_a_remedy(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    net(torch.ones(1, 2))
    assert sink.gaps == []
    given = {name: tensor.detach() for name, tensor in net.named_parameters()}

    def loss(given: dict) -> torch.Tensor:
        return torch.func.functional_call(net, given, (torch.ones(1, 2),)).sum()

    for _ in range(3):
        torch.func.grad(loss)(given)
    ((what, _, remedy),) = sink.gaps
    assert what == "Sequential inside torch.func"
    assert "loss.backward()" in remedy


def test_two_networks_with_two_optimizers_are_told_apart(watch: Watch) -> None:
    sink = watch()
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    g, d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(2):
        d.zero_grad()
        critic(generator(torch.ones(1, 2)).detach()).mean().backward()
        d.step()
        g.zero_grad()
        critic(generator(torch.ones(1, 2))).mean().backward()
        g.step()
    assert list(sink.networks) == ["generator", "critic"]
    assert sink.parts["optimizer", "Adam"].parameters == ("generator:weight", "generator:bias")
    assert sink.parts["optimizer", "Adam-2"].parameters == ("critic:weight", "critic:bias")
    assert [call for call in sink.calls if call.startswith("updated")] == ["updated Adam-2", "updated Adam"] * 2
    assert {one.info.network for one in sink.of("gradient")} == {"generator", "critic"}
    names = {name for _, name, _ in sink.scalars}
    assert {"lr", "lr/Adam-2", "gradient_norm", "gradient_norm/Adam-2"} <= names


def test_the_users_own_hooks_run_in_their_order_and_see_what_they_saw(watch: Watch) -> None:
    watch()
    seen = []
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[0].register_forward_pre_hook(lambda module, args: seen.append("pre"))
    net[0].register_forward_hook(lambda module, args, out: out * 2)
    net.register_forward_hook(lambda module, args, out: seen.append("root"))
    net[0].weight.register_hook(lambda grad: seen.append("grad"))
    net(torch.ones(1, 2)).sum().backward()
    assert seen == ["pre", "root", "grad"]
    assert [len(module._forward_hooks) for module in net.modules()] == [1, 1, 0]


def test_an_error_of_the_users_passes_and_the_next_call_is_watched(watch: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x)

    sink = watch()
    net = Net()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net(torch.ones(1, 3))
    net(torch.ones(1, 2))
    assert sink.names("output") == ["fc", ""]


def test_dropout_that_stays_random_in_evaluation_is_told_with_its_line(watch: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.drop = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.dropout(self.drop(self.fc(x)), p=0.6)

    for depth in (Depth.ALL, Depth.LIGHT):
        sink = watch(depth=depth)
        net = Net()
        net(torch.ones(1, 2))
        assert sink.kinds("dropout") == []
        net.eval()
        net.drop.train()
        net(torch.ones(1, 2))
        (event,) = [event for event in sink.events if event[1] == "dropout"]
        told = {"p": 0.6, "training": True, "module": "", "module_training": False, "function": "dropout"}
        assert event[3] == told
        assert event[4].code == "return F.dropout(self.drop(self.fc(x)), p=0.6)"


def test_detach_leaves_torch_as_it_was_found(watch: Watch) -> None:
    names = [
        (nn.Module, "__call__"),
        (nn.Module, "__init__"),
        (torch, "relu"),
        (torch.autograd, "backward"),
        (F, "cross_entropy"),
        (torch.optim.Optimizer, "__init__"),
    ]
    before = [getattr(owner, name) for owner, name in names]
    own = set(vars(torch.Tensor))
    sink = watch()
    assert [getattr(owner, name) for owner, name in names] != before
    sink.adapter.detach()
    assert [getattr(owner, name) for owner, name in names] == before
    assert set(vars(torch.Tensor)) == own
    nn.Linear(2, 2)(torch.ones(1, 2))
    assert sink.calls == []


def test_a_model_whose_forward_is_called_directly_is_found_by_its_optimizer(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    F.linear(torch.ones(1, 2), net[0].weight, net[0].bias).sum().backward()
    optimizer.step()
    assert list(sink.networks) == ["net"]
    assert sink.names("gradient") == ["0.weight", "0.bias"]


def test_a_model_may_be_handed_over_instead_of_found(watch: Watch) -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    sink = watch()
    sink.adapter.add(net, optimizer)
    assert sink.networks["net"].parameters[0].optimizer == "SGD"
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert sink.names("gradient") == ["weight", "bias"]
