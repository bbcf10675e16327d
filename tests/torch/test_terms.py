"""What the sum of a loss is made of, and which variable keeps old graphs: told by the names of the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from .conftest import Watch


def test_terms_of_a_loss_are_told_with_their_weights_and_lines(watch: Watch) -> None:
    sink = watch()
    net, x, beta = nn.Linear(4, 2), torch.ones(3, 4), 0.5
    rec = net(x).square().mean()
    kl = net(x).abs().sum()
    loss = rec - beta * kl / 2
    loss.backward()
    (told,) = sink.kinds("terms")
    assert told["rec"] == pytest.approx(rec.item())
    assert told["kl"] == pytest.approx(-0.25 * kl.item())
    assert told["line of rec"].endswith("rec = net(x).square().mean()")
    assert told["line of kl"].endswith("loss = rec - beta * kl / 2")  # its sign is made there


def test_a_term_that_only_a_call_gives_is_what_the_others_leave(watch: Watch) -> None:
    sink = watch()
    net, x = nn.Linear(4, 2), torch.ones(3, 4)
    asked = []

    def penalty():
        asked.append(1)
        return net.weight.square().sum()

    fit = net(x).square().mean()
    loss = fit + penalty()
    loss.backward()
    (told,) = sink.kinds("terms")
    assert told["penalty()"] == pytest.approx((loss - fit).item())
    assert len(asked) == 1  # nothing of the program was called again


def test_a_loss_of_one_term_tells_nothing(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(4, 2)
    loss = 2 * net(torch.ones(3, 4)).square().mean()
    loss.backward()
    assert sink.kinds("terms") == []


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x).square()  # which keeps what it squares


@pytest.mark.parametrize("keeps", [True, False])
def test_the_variable_that_keeps_old_graphs_is_told_with_the_line_that_adds_to_it(watch: Watch, keeps: bool) -> None:
    sink = watch()
    net = Small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    running = torch.zeros(())
    for _ in range(12):
        loss = net(torch.ones(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen = net(torch.ones(3, 4)).mean()
        running = 0.9 * running + 0.1 * (seen if keeps else seen.item())
    told = [(values, at) for _, kind, _, values, at in sink.events if kind == "graph_alive" and "variable" in values]
    assert [(values["variable"], at.code) for values, at in told] == (
        [("running", "running = 0.9 * running + 0.1 * (seen if keeps else seen.item())")] if keeps else []
    )


def test_the_caller_that_keeps_what_a_function_returns_is_told_not_the_line_inside_it(watch: Watch) -> None:
    sink = watch()
    net = Small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scores = []

    def measure():
        out = net(torch.ones(3, 4))
        return out.square().mean()

    for _ in range(4):
        loss = measure()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for _ in range(4):
            scores.append(measure())
    told = [at.code for _, kind, _, values, at in sink.events if kind == "graph_alive" and "variable" not in values]
    assert told == ["scores.append(measure())"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_loss_that_is_added_up_after_its_backward_pass_keeps_the_nodes_of_its_graph(
    watch: Watch, keeps: bool
) -> None:
    sink = watch()
    net = Small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    total = torch.zeros(())
    for _ in range(12):
        loss = net(torch.ones(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + (loss if keeps else loss.item())
    alive = [value for _, name, value in sink.scalars if name == "graphs_alive"]
    assert alive == ([float(at) for at in range(12)] if keeps else [0.0] * 12)
    told = [
        values["variable"] for _, kind, _, values, _ in sink.events if kind == "graph_alive" and "variable" in values
    ]
    assert told == (["total"] if keeps else [])
