"""What a step is: which calls, backward passes and updates make one, and what is told of each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tensight.records import Depth, Needs
from tensight.stats import reference

from .conftest import Watch


def test_weights_are_seen_before_the_first_call_and_with_their_change_after_the_update(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    before = net.weight.detach().numpy().copy()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    first, after = sink.of("weight")
    assert (first.phase, first.stats.change) == ("forward", None)
    assert first.stats.min == before.min()
    expected = reference.statistics(net.weight.detach().numpy(), Needs(change=True), before)
    assert after.phase == "update"
    assert after.stats.change == expected.change


def test_the_gradient_norm_and_the_learning_rate_are_scalars(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(torch.tensor([[3.0, 4.0]])).sum().backward()
    optimizer.step()
    assert (0, "gradient_norm", 5.0) in sink.scalars
    assert (0, "lr", 0.5) in sink.scalars


def test_copies_of_weights_stay_within_their_limit(watch: Watch) -> None:
    sink = watch()
    sink.adapter.updates.copy_limit = 10
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    changes = {one.info.name: one.stats.change is None for one in sink.of("weight") if one.phase == "update"}
    assert changes == {"weight": True, "bias": False}
    assert sink.gaps[0][0] == "the change of some weights"


def test_a_closure_of_an_optimizer_is_one_step_and_its_gradients_are_seen(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (net(torch.ones(4, 2)) - 1).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert sink.calls.count("updated LBFGS") == 1
    assert sink.calls.count("backward") >= 3
    assert {one.info.name for one in sink.of("gradient")} == {"weight", "bias"}


def test_an_optimizer_inside_another_is_one_step(watch: Watch) -> None:
    class Outer(torch.optim.Optimizer):
        def __init__(self, params, inner: torch.optim.Optimizer) -> None:
            super().__init__(params, {"lr": 0.1})
            self.inner = inner

        def step(self, closure=None):
            self.inner.step()

    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = Outer(net.parameters(), torch.optim.SGD(net.parameters(), lr=0.1))
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert [call for call in sink.calls if call.startswith("updated")] == ["updated Outer"]


def test_a_step_that_fails_is_not_counted_and_the_next_one_is(watch: Watch) -> None:
    class Failing(torch.optim.SGD):
        fail = True

        def step(self, closure=None):
            if self.fail:
                raise ValueError("the user's own")
            return super().step(closure)

    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = Failing(net.parameters(), lr=0.1)
    net(torch.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match="the user's own"):
        optimizer.step()
    optimizer.fail = False
    optimizer.step()
    assert sink.calls.count("updated Failing") == 1


def test_accumulated_backward_passes_are_told_one_by_one(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert sink.calls.count("backward") == 3
    assert len(sink.losses) == 3
    assert [values["cleared"] for values in sink.kinds("backward")] == [True, False, False]
    assert len(sink.of("gradient")) == 2
    assert sink.names("output") == [""]


def test_gradients_cleared_by_hand_count_as_cleared(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        for p in net.parameters():
            p.grad = None
    assert sink.kinds("zero_grad") == [{"noticed": True}]
    net.zero_grad()
    assert sink.kinds("zero_grad")[1] == {"set_to_none": True, "module": ""}


@pytest.mark.parametrize("by_data", [True, False])
def test_weights_changed_by_hand_end_a_step(watch: Watch, by_data: bool) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    for _ in range(3):
        net(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            for p in net.parameters():
                if by_data:
                    p.data -= 0.1 * p.grad
                else:
                    p -= 0.1 * p.grad
                p.grad.zero_()
    sink.adapter.detach()
    assert sink.calls.count("weights_changed") == 3
    assert len([one for one in sink.of("gradient") if one.info.slot == "weight"]) == 3
    after = [one for one in sink.of("weight", slot="weight") if one.phase == "update"]
    assert len(after) == 3
    assert all(one.stats.change.moved == 2 for one in after)


def test_gradients_by_autograd_grad_make_a_backward_pass_when_they_are_of_parameters(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    x = torch.ones(1, 2, requires_grad=True)
    for _ in range(2):
        loss = net(x).sum()
        torch.autograd.grad(loss, x, create_graph=True)
        grads = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for p, g in zip(net.parameters(), grads):
                p -= 0.1 * g
    sink.adapter.detach()
    assert sink.calls.count("backward") == 2
    assert sink.calls.count("weights_changed") == 2
    assert len(sink.of("gradient", slot="weight")) == 2
    assert sink.kinds("grad") == [{"inputs": 1}, {"inputs": 1}]


def test_evaluation_inside_training_is_told_apart_and_its_beginning_is_looked_at(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for _ in range(5):
                net(torch.ones(1, 2))
    evaluated = [one for one in sink.of("output", node="0") if one.phase == "evaluation"]
    assert len(evaluated) == 4
    assert {one.info.call for one in evaluated} == {0}
    assert evaluated[0].info.id != sink.of("output", node="0")[0].info.id
    assert [values["grad"] for values in sink.kinds("forward")][:6] == [True, *[False] * 5]


def test_a_program_that_only_infers_is_watched_call_by_call(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 1)).eval()
    with torch.inference_mode():
        for _ in range(5):
            net(torch.ones(1, 2))
    assert len(sink.of("output", node="0")) == 5
    assert sink.calls == ["forward net False", "forwarded net"] * 5


def test_scaled_gradients_are_told_as_they_really_are(watch: Watch) -> None:
    sink = watch(needs=Needs(ranges=((0.5, 2.0),)))
    net = nn.Sequential(nn.Linear(2, 1, bias=False))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(net(torch.tensor([[3.0, 4.0]])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    output = sink.of("output_gradient", node="0")[0].stats
    assert (output.min, output.max, output.mean) == (1.0, 1.0, 1.0)
    assert (output.within[0].start, output.within[0].count) == (0.5, 1)
    gradient = sink.of("gradient")[0].stats
    assert (gradient.min, gradient.max) == (3.0, 4.0)
    assert sink.losses[0] == pytest.approx(float(sink.of("output", node="")[0].stats.mean))
    assert sink.parts["scaler", "GradScaler"].settings["init_scale"] == 1024.0
    assert sink.kinds("unscale") == [{}]
    assert sink.kinds("scale") == [{"scale": 1024.0, "overflow": False}]
    assert sink.calls.count("updated SGD") == 1


def test_an_update_that_the_scaler_leaves_out_is_a_skipped_step_with_its_gradients(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 1, bias=False))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(net(torch.full((1, 2), math.inf)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert sink.kinds("optimizer_step") == [{"lr": 0.1, "skipped": True}]
    assert sink.calls.count("updated SGD") == 1
    assert sink.of("gradient")[0].stats.bad == 2
    assert sink.kinds("scale") == [{"scale": 512.0, "overflow": True}]


def test_of_a_program_that_only_infers_the_answer_is_read_in_every_step(watch: Watch) -> None:
    sink = watch(depth=Depth.LIGHT)
    net = nn.Sequential(nn.Linear(2, 1)).eval()
    with torch.no_grad():
        for _ in range(3):
            net(torch.ones(1, 2))
    assert [(one.info.kind, one.info.node) for one in sink.seen] == [("output", "")] * 3


def test_a_training_that_evaluates_in_between_is_not_read_more_than_asked_for(watch: Watch) -> None:
    sink = watch(depth=Depth.LIGHT)
    net = nn.Sequential(nn.Linear(2, 1))
    net(torch.ones(1, 2)).sum().backward()
    before = len(sink.seen)
    with torch.no_grad():
        net(torch.ones(1, 2))
    assert len(sink.seen) == before
