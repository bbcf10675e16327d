"""Losses and dropout inside compiled code are read from its graph: it runs without the functions that would tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tensight.frameworks.torch.adapter import TorchAdapter
from tests.torch.recording import RecordingSink


class Net(nn.Module):
    """A network whose last function and dropout are given."""

    def __init__(self, last: Callable[[torch.Tensor], torch.Tensor], dropout: str = "") -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.last, self.kind = last, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        if self.kind == "always":
            x = F.dropout(x, 0.5)
        if self.kind == "mode":
            x = F.dropout(x, 0.5, self.training)
        if self.kind == "module":
            x = self.drop(x)
        return self.last(x)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def told(program: Callable[[], object], kind: str) -> list[dict]:
    sink = RecordingSink()
    adapter = TorchAdapter()
    adapter.attach(sink)
    try:
        program()
    finally:
        adapter.detach()
    assert not sink.failures
    return [values for _, told_of, _, values, _ in sink.events if told_of == kind]


def same(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize(
    ("loss", "last", "from_"),
    [
        (F.binary_cross_entropy_with_logits, torch.sigmoid, "sigmoid"),
        (F.cross_entropy, lambda x: x.softmax(dim=-1), "softmax"),
        (F.cross_entropy, lambda x: torch.softmax(x, 0), ""),  # over the samples: told by others
        (F.binary_cross_entropy_with_logits, same, ""),
        (F.binary_cross_entropy_with_logits, torch.tanh, ""),
        (F.cross_entropy, same, ""),
        (F.mse_loss, torch.sigmoid, ""),
    ],
)
def test_a_loss_that_applies_what_was_applied_before(loss: Callable, last: Callable, from_: str) -> None:
    net = Net(last)
    x, y = torch.randn(5, 4), torch.full((5, 3), 0.5)

    def program() -> None:
        step = torch.compile(lambda x, y: getattr(F, loss.__name__)(net(x), y), backend="eager")
        step(x, y).backward()

    traced = [values for values in told(program, "loss") if values.get("traced")]
    assert [values["prediction_from"] for values in traced] == ([from_] if from_ else [])
    if from_:
        assert traced[0]["classes"] == 3
        assert traced[0]["prediction_code"]


@pytest.mark.parametrize(("kind", "random"), [("always", True), ("mode", False), ("module", False), ("", False)])
def test_dropout_that_stays_on_in_evaluation(kind: str, random: bool) -> None:
    def program() -> None:
        model = torch.compile(Net(same, kind), backend="eager")
        model(torch.randn(5, 4)).sum().backward()
        model.eval()
        with torch.no_grad():
            model(torch.randn(5, 4))

    dropped = told(program, "dropout")
    assert [values["module_training"] for values in dropped] == [False] * random


def test_dropout_in_a_step_that_is_not_watched() -> None:
    """To hold the budget most steps are watched for their loss alone; a graph is captured once, in any of them."""
    sink = RecordingSink()
    adapter = TorchAdapter()
    adapter.attach(sink)
    try:
        model = torch.compile(Net(same, "always"), backend="eager")
        model(torch.randn(5, 4)).sum().backward()
        adapter.watching.active = False
        model.eval()
        with torch.no_grad():
            model(torch.randn(5, 4))
    finally:
        adapter.detach()
    assert [kind for _, kind, *_ in sink.events].count("dropout") == 1


def test_a_dropout_module_that_was_switched_on_again_is_meant() -> None:
    def program() -> None:
        net = Net(same, "module").eval()
        net.drop.train()
        with torch.no_grad():
            torch.compile(net, backend="eager")(torch.randn(5, 4))

    assert not told(program, "dropout")
