"""The loss around the weights, along two random directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensight.errors import UsageError
from tensight.kit.backend import Array, backend_of


@dataclass(frozen=True)
class Landscape:
    """Losses on a grid; `axis` are the distances in both directions, in units of each weight's own size."""

    axis: list[float]
    losses: list[list[float]]


def landscape(network: Any, loss_fn: Any, batch: Any, size: int = 11, span: float = 1.0, seed: int = 1) -> Landscape:
    """The loss of one batch on a grid of `size` by `size` around the weights, which are put back bit by bit.

    Directions are random and as long as the weights they change, parameter by parameter.

    >>> import torch
    >>> network = torch.nn.Linear(2, 1)
    >>> found = landscape(network, torch.nn.MSELoss(), (torch.ones(4, 2), torch.zeros(4, 1)), size=3)
    >>> found.axis, len(found.losses)
    ([-1.0, 0.0, 1.0], 3)
    """
    if not 3 <= size <= 256:
        raise UsageError(f"landscape: a grid of {size} by {size} is none; give 3 to 256")
    backend = backend_of(network)
    trainer = backend.trainer(network, loss_fn, None)
    weights = backend.state(network)
    trained = {name for name, _ in backend.parameters(network)}
    random = np.random.default_rng(seed)
    ways = [{name: _direction(random, weights[name]) for name in weights if name in trained} for _ in range(2)]
    axis = [float(one) for one in np.linspace(-span, span, size)]
    losses: list[list[float]] = []
    try:
        with trainer.evaluating():
            for first in axis:
                row = []
                for second in axis:
                    moved = {name: weights[name] + first * ways[0][name] + second * ways[1][name] for name in ways[0]}
                    backend.load_state(network, {**weights, **_as_were(moved, weights)})
                    loss, _, _ = trainer.evaluate(batch)
                    row.append(float("nan") if loss is None else loss)
                losses.append(row)
    finally:
        backend.load_state(network, weights)
    return Landscape(axis, losses)


def _direction(random: np.random.Generator, weight: Array) -> Array:
    way = random.standard_normal(weight.shape)
    length = float(np.linalg.norm(way)) or 1.0
    return np.asarray(way * (float(np.linalg.norm(weight)) / length))


def _as_were(moved: dict[str, Array], weights: dict[str, Array]) -> dict[str, Array]:
    return {name: value.astype(weights[name].dtype) for name, value in moved.items()}
