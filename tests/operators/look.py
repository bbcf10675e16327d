"""One training step under a look, and what it has shown."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tensight.frameworks.rewinds import Seen
from tensight.frameworks.torch.replay_look import TorchLook

Problem = tuple[str, BaseException]


def look_at(step: Callable[[], object], *, final: bool = True) -> Seen | None:
    """Run a step that ends by itself and say where bad values came from."""
    problems: list[Problem] = []
    look = TorchLook(lambda where, error: problems.append((where, error)))
    try:
        step()
        seen = look.seen(0, final=final)
    finally:
        look.stop()
    assert problems == []
    return seen


def loss_step(loss: Callable[[torch.Tensor], torch.Tensor], weights: torch.Tensor) -> Callable[[], object]:
    """A step of a model with one parameter, whose loss is a function of it."""
    model = Only(weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        loss(model()).backward()
        optimizer.step()

    return step


class Only(torch.nn.Module):
    """Gives its one parameter."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(weights.clone())

    def forward(self) -> torch.Tensor:
        return self.weights * 1
