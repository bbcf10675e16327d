"""TensorBoard: a histogram of every weight and every gradient in every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TITLE = "TensorBoard `add_histogram`"
NEEDS = "tensorboard"
COVERS = "histograms of weights and their gradients; no activations, nothing judged"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("tensorboard")

    @contextmanager
    def around(step: int) -> Iterator[None]:
        yield
        for name, parameter in model.named_parameters():
            writer.add_histogram(name, parameter, step)
            if parameter.grad is not None:
                writer.add_histogram(f"{name}.grad", parameter.grad, step)

    return model, around
