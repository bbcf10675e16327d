"""Whether inputs say anything about their labels: asked once, of the first samples, without the network.

The nearest neighbours of a sample share its label more often than chance when inputs and labels belong together, also
where the relation is not linear. When they do not, the labels may be shuffled against the inputs.
"""

from __future__ import annotations

import numpy as np

from tensight.frameworks.adapter import Array

SAMPLES = 400
MOST_AT_ONCE = 2 * SAMPLES  # rows of one batch: some may be there twice
FEWEST = 200
FEATURES = 256
NEIGHBOURS = 5
ROWS = 50  # of distances at once
SURE = 3.0  # standard deviations above chance
OF_MANY = 4.5  # the same for the largest of a thousand
MOST_FEATURES = 48
MOST_KINDS = 10
RARE = 0.03  # share of samples a token is in, below which nothing can be said of it


class Gathered:
    """Samples of the first batches, until there are enough to ask."""

    def __init__(self, *, of_tokens: bool = False) -> None:
        self._of_tokens = of_tokens
        self._inputs: list[Array] = []
        self._labels: list[Array] = []
        self._count = 0
        self.done = False

    def add(self, inputs: Array, labels: Array) -> float | None:
        """A batch, one row for each label; answers once there are enough, None when it cannot be asked."""
        values = inputs.reshape(len(inputs), -1)[:MOST_AT_ONCE]
        if self._of_tokens:
            values = counted(values)
        width = values.shape[1]
        if width > FEATURES:
            values = values[:, :: -(-width // FEATURES)]
        self._inputs.append(values.astype(np.float32))
        self._labels.append(labels[:MOST_AT_ONCE].astype(np.float64))
        self._count += len(values)
        if self._count < SAMPLES:
            return None
        self.done = True
        together = np.concatenate(self._labels)
        ask = information if (together == together.round()).all() else explained
        features = np.concatenate(self._inputs)
        if self._of_tokens:  # products of what is rare are far from a normal distribution, which chance is judged by
            usual = (features > 0).mean(axis=0)
            features = features[:, (usual > RARE) & (usual < 1 - RARE)]
            found = ask(features, together, pairs=False) if features.size else None
        else:
            found = ask(features, together)
        self._inputs, self._labels = [], []
        return found


def counted(tokens: Array) -> Array:
    """How often each token is in each row; of a large vocabulary, several tokens share a column.

    >>> counted(np.array([[3, 1, 3]]))[0, :4].tolist()
    [0.0, 1.0, 0.0, 2.0]
    """
    counts: Array = np.zeros((len(tokens), FEATURES), np.float32)
    np.add.at(counts, (np.arange(len(tokens))[:, None], tokens % FEATURES), 1.0)
    return counts


def information(inputs: Array, labels: Array, *, pairs: bool = True) -> float | None:
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
    nearest = _nearest(inputs)
    same = float((labels[nearest] == labels[:, None]).mean())
    spread = (chance * (1 - chance) / len(labels)) ** 0.5
    if same > chance + SURE * spread:
        return max(0.0, (same - chance) / (1 - chance))
    kinds = np.unique(labels)[:MOST_KINDS]
    return _products(inputs, (labels[:, None] == kinds).astype(np.float64), pairs=pairs)


def explained(inputs: Array, values: Array, *, pairs: bool = True) -> float | None:
    """The same for measured values: how much of their variance neighbours, or a straight line, explain.

    >>> rows = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    >>> explained(rows, rows[:, 0] * 2.0) > 0.3
    True
    >>> explained(rows, np.random.default_rng(1).normal(size=400))
    0.0
    """
    if not np.isfinite(inputs).all() or not np.isfinite(values).all():
        return None
    inputs, first = np.unique(inputs, axis=0, return_index=True)
    values = values[first]
    if len(values) < FEWEST or values.std() < 1e-12:
        return None
    inputs, values = inputs[:SAMPLES], (values[:SAMPLES] - values[:SAMPLES].mean()) / values[:SAMPLES].std()
    guessed = values[_nearest(inputs)].mean(axis=1)
    together = float(np.corrcoef(guessed, values)[0, 1]) if guessed.std() > 0 else 0.0
    single = (
        np.abs(np.corrcoef(inputs.T.astype(np.float64), values)[-1, :-1]) if inputs.std(axis=0).all() else np.zeros(1)
    )
    chance = len(values) ** -0.5
    if together > SURE * chance or float(np.nan_to_num(single).max()) > (SURE + 1) * chance:
        return max(together, float(np.nan_to_num(single).max()))
    return _products(inputs, values, pairs=pairs)


def _products(inputs: Array, values: Array, *, pairs: bool) -> float:
    """The closest relation of values to a feature, or to the product of two; 0 when chance explains it.

    Several columns of values are looked at together. Products are made one feature at a time: all at once they are
    megabytes, which a small training would not take by itself.
    """
    features = (inputs[:, :MOST_FEATURES] if pairs else inputs).astype(np.float64)
    features = features[:, features.std(axis=0) > 1e-9]
    values = values.reshape(len(values), -1)
    values = values[:, values.std(axis=0) > 1e-12]
    if not features.size or not values.size:
        return 0.0
    features = _standardised(features)
    values = _standardised(values)
    closest = float(np.abs(_inner(features, values)).max())
    for first in range(features.shape[1] if pairs else 0):
        candidates = features[:, first:] * features[:, first, None]
        candidates = candidates[:, candidates.std(axis=0) > 1e-9]
        if candidates.size:
            closest = max(closest, float(np.abs(_inner(_standardised(candidates), values)).max()))
    closest /= len(values)
    return closest if closest > OF_MANY * len(values) ** -0.5 else 0.0


def _inner(a: Array, b: Array) -> Array:
    """Columns with columns. Not by BLAS: NumPy brings one of its own, which a training seldom uses."""
    product: Array = np.einsum("ki,kj->ij", a, b)
    return product


def _standardised(columns: Array) -> Array:
    result: Array = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    return result


def _nearest(inputs: Array) -> Array:
    scaled = (inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-6)
    squares = (scaled**2).sum(axis=1)
    found = []
    for begin in range(0, len(scaled), ROWS):
        rows = slice(begin, begin + ROWS)
        distance = squares[rows, None] + squares[None, :] - 2 * _inner(scaled[rows].T, scaled.T)
        np.fill_diagonal(distance[:, begin:], np.inf)
        found.append(np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS])
    return np.concatenate(found)
