"""Loops without a loader, without an optimizer, or with several: what is told of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from .conftest import Watch


@pytest.mark.parametrize(("cleared", "told"), [(False, "added_to"), (True, "begun_in")])
def test_a_pass_through_a_critic_tells_what_it_does_to_its_generator(cleared: bool, told: str, watch: Watch) -> None:
    sink = watch()
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (generator, critic))
    for _ in range(3):
        made = generator(torch.ones(4, 2))
        second.zero_grad()
        critic(made.detach()).mean().backward()
        second.step()
        if cleared:
            first.zero_grad()
        (-critic(made).mean()).backward()
        first.step()
    own, through = [values for _, kind, _, values, _ in sink.events if kind == "backward"][-2:]
    assert through.get(told) == "generator"
    assert not own.keys() & {"added_to", "begun_in"}


def test_gradients_that_are_asked_for_are_not_those_that_an_optimizer_steps_with(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        slopes = torch.autograd.grad(net(torch.ones(4, 2)).sum(), list(net.parameters()))
        optimizer.step()
    assert len(slopes) == 2
    assert sink.of("gradient") == []


@pytest.mark.parametrize("cut", [False, True])
def test_a_state_that_is_carried_through_updates_by_hand_keeps_graphs_alive(cut: bool, watch: Watch) -> None:
    sink = watch()
    cell = nn.GRUCell(2, 3)
    state = torch.zeros(4, 3)
    for _ in range(12):
        if cut:
            state = state.detach()
        state = cell(torch.randn(4, 2), state)
        cell.zero_grad()
        state.pow(2).mean().backward(retain_graph=True)
        for parameter in cell.parameters():
            parameter.data = parameter.data - 0.1 * parameter.grad
    alive = [value for _, name, value in sink.scalars if name == "graphs_alive"]
    assert (alive[-1] > 6) is not cut


def chain(*, detached: bool, by_hand: bool, watch: Watch) -> list[dict]:
    sink = watch()
    net = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    here, there, done = torch.eye(5), torch.eye(5).roll(1, 0), torch.tensor([0.0, 0, 0, 0, 1])
    for _ in range(3):
        value = net(here)[:, 0]
        target = done + 0.9 * (1 - done) * net(there).max(1).values
        target = target.detach() if detached else target
        loss = (value - target).pow(2).mean() if by_hand else nn.functional.mse_loss(value, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [values for _, kind, _, values, _ in sink.events if kind == "loss"]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("detached", [False, True])
def test_a_target_made_of_the_own_answers_is_told_while_it_has_a_graph(
    detached: bool, by_hand: bool, watch: Watch
) -> None:
    told = chain(detached=detached, by_hand=by_hand, watch=watch)
    assert [values.get("target_bootstraps", False) for values in told] == [not detached] * 3


def test_the_residual_of_an_equation_is_no_bootstrap(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    time = torch.linspace(0, 1, 16)[:, None]
    now, soon = net(time), net(time + 0.01)
    nn.functional.mse_loss(soon, now - 0.01 * now + 0.01 * time.sin()).backward()  # a step of an implicit scheme
    nn.functional.mse_loss(
        net(time), 0.5 * net(time + 0.01) + time
    ).backward()  # a share, and nothing that is chosen or ends
    optimizer.step()
    assert not any("target_bootstraps" in values for _, kind, _, values, _ in sink.events if kind == "loss")


def test_the_line_that_makes_the_batch_is_told(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train(features: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(features).sum().backward()
        optimizer.step()

    for _ in range(3):
        batch = torch.randn(4, 3)
        features = batch[:, :2].float()
        train(features)
    (source,) = [source for _, kind, _, _, source in sink.events if kind == "fed_by"]
    assert source.code == "batch = torch.randn(4, 3)"


def slope_penalty(net: nn.Module, *, graph: bool) -> torch.Tensor:
    point = torch.randn(4, 2).requires_grad_()
    (slope,) = torch.autograd.grad(net(point).sum(), point, create_graph=graph)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


@pytest.mark.parametrize("in_a_variable", [False, True])
@pytest.mark.parametrize("graph", [False, True])
def test_a_penalty_on_slopes_without_a_graph_is_told(graph: bool, in_a_variable: bool, watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        if in_a_variable:
            penalty = slope_penalty(net, graph=graph)
            loss = net(torch.ones(4, 2)).mean() + 10 * penalty
        else:
            loss = net(torch.ones(4, 2)).mean() + 10 * slope_penalty(net, graph=graph)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    told = [source.code for _, kind, _, _, source in sink.events if kind == "number_in_loss"]
    assert len(told) == (0 if graph else 3)
    assert all("torch.autograd.grad" in code for code in told)


def test_an_attack_on_the_inputs_beside_a_loss_is_no_penalty(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        point = torch.randn(4, 2).requires_grad_()
        (slope,) = torch.autograd.grad(net(point).sum(), point)
        attacked = net(point + 0.1 * slope.sign()).mean()
        loss = net(point.detach()).mean() + 0.5 * attacked
        loss = loss + 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert not [kind for _, kind, _, _, _ in sink.events if kind == "number_in_loss"]
