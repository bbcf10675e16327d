"""Whether inputs say anything about their labels: asked once, of the first samples, without the network.

The nearest neighbours of a sample share its label more often than chance when inputs and labels belong together, also
where the relation is not linear. When they do not, the labels may be shuffled against the inputs.
"""

from __future__ import annotations

import numpy as np
import torch

from tensight.frameworks.torch.watching import Watching

SAMPLES = 400
FEWEST = 200
FEATURES = 256
NEIGHBOURS = 5
SURE = 3.0  # standard deviations above chance


class LabelProbe:
    """Gathers samples from calls of a classification loss until there are enough, then tells and is done."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._inputs: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        self._count = 0
        self._done = False

    def look(self, inputs: list[torch.Tensor], target: torch.Tensor | None) -> None:
        if self._done or target is None or target.dim() != 1 or target.is_floating_point() or target.is_complex():
            return
        fed = next((tensor for tensor in inputs if tensor.shape[:1] == target.shape), None)
        if fed is None or not fed.is_floating_point() or fed.dim() < 2 or fed.device.type != "cpu":
            return
        values = fed.detach().reshape(len(fed), -1)
        width = values.shape[1]
        if width > FEATURES:
            values = values[:, :: -(-width // FEATURES)]
        self._inputs.append(values.to(torch.float32).numpy().copy())
        self._labels.append(target.detach().to(torch.int64).numpy().copy())
        self._count += len(target)
        if self._count >= SAMPLES:
            self._done = True
            found = information(np.concatenate(self._inputs), np.concatenate(self._labels))
            self._inputs, self._labels = [], []
            if found is not None:
                self.watching.sink.scalar("probe/label_information", found)


def information(inputs: np.ndarray, labels: np.ndarray) -> float | None:
    """How much better than chance neighbours tell labels: 0 not at all, 1 always; None when it cannot be asked.

    >>> rows = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    >>> information(rows, (rows[:, 0] > 0).astype(int)) > 0.3
    True
    >>> information(rows, np.random.default_rng(1).integers(0, 2, 400))
    0.0
    """
    if not np.isfinite(inputs).all():
        return None
    # a sample that was drawn twice would be its own neighbour
    inputs, first = np.unique(inputs, axis=0, return_index=True)
    labels = labels[first]
    if len(labels) < FEWEST:
        return None
    inputs, labels = inputs[:SAMPLES], labels[:SAMPLES]
    _, counts = np.unique(labels, return_counts=True)
    shares = counts / len(labels)
    chance = float((shares**2).sum())
    if len(shares) < 2 or len(shares) > len(labels) / 10 or chance > 0.9:
        return None
    scaled = (inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-6)
    squares = (scaled**2).sum(axis=1)
    distance = squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T
    np.fill_diagonal(distance, np.inf)
    nearest = np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    same = float((labels[nearest] == labels[:, None]).mean())
    spread = (chance * (1 - chance) / len(labels)) ** 0.5
    return max(0.0, (same - chance) / (1 - chance)) if same > chance + SURE * spread else 0.0
