"""Metrics of values: errors, tolerance, similarity, overlap, loss, perplexity, BLEU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensight.errors import MissingExtra, UsageError
from tensight.kit.backend import number
from tensight.kit.metrics.metric import Gathering, pair, same_shape


class _Mean(Gathering):
    """A sum over a count."""

    sums = ("total", "count")

    def _add(self, total: float, count: float) -> None:
        self._put("total", np.array([total]))
        self._put("count", np.array([count]))

    def eval(self) -> float:
        return self._total("total") / self._total("count")


class Loss(_Mean):
    """The mean loss of the batches.

    >>> metric = Loss(); metric.update(0.5); metric.update(1.5); metric.eval()
    1.0
    """

    def update(self, *inputs: Any) -> None:
        value = number(inputs[0]) if len(inputs) == 1 else None
        if value is None:
            raise UsageError("Loss.update takes one loss: a number or a tensor")
        self._add(value, 1)


class MAE(_Mean):
    """The mean absolute error.

    >>> metric = MAE(); metric.update([0.5, 2.0], [1.0, 3.0]); metric.eval()
    0.75
    """

    def update(self, *inputs: Any) -> None:
        predicted, wanted = same_shape(self, inputs)
        self._add(float(np.abs(predicted - wanted).sum()), predicted.size)


class MSE(_Mean):
    """The mean squared error.

    >>> metric = MSE(); metric.update([0.5, 2.0], [1.0, 3.0]); metric.eval()
    0.625
    """

    def update(self, *inputs: Any) -> None:
        predicted, wanted = same_shape(self, inputs)
        self._add(float(((predicted - wanted) ** 2).sum()), predicted.size)


class Tolerance(_Mean):
    """The share of predictions that are within an absolute tolerance.

    >>> metric = Tolerance(0.5); metric.update([1.0, 2.0, 3.0], [1.4, 2.5, 4.0]); round(metric.eval(), 4)
    0.6667
    """

    def __init__(self, tolerance: float = 1e-3) -> None:
        if not tolerance >= 0:
            raise UsageError(f"Tolerance: {tolerance} is no tolerance; give a number from 0 on")
        self.tolerance = float(tolerance)
        super().__init__()

    def update(self, *inputs: Any) -> None:
        predicted, wanted = same_shape(self, inputs)
        self._add(float((np.abs(predicted - wanted) <= self.tolerance).sum()), predicted.size)


class CosineSimilarity(_Mean):
    """The mean cosine between rows of prediction and label; 0 for a row of zeros.

    >>> metric = CosineSimilarity(); metric.update([[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [-1.0, -1.0]])
    >>> abs(round(metric.eval(), 6))
    0.0
    """

    def update(self, *inputs: Any) -> None:
        predicted, wanted = same_shape(self, inputs)
        rows = len(predicted)
        predicted, wanted = predicted.reshape(rows, -1), wanted.reshape(rows, -1)
        size = np.linalg.norm(predicted, axis=1) * np.linalg.norm(wanted, axis=1)
        cosine = np.divide((predicted * wanted).sum(1), size, out=np.zeros(rows), where=size != 0)
        self._add(float(cosine.sum()), rows)


class Dice(Gathering):
    """Overlap of two masks over all batches: twice what both have over what each has.

    >>> metric = Dice(smooth=0); metric.update([1, 1, 0], [1, 0, 0]); round(metric.eval(), 4)
    0.6667
    """

    sums = ("both", "sizes")

    def __init__(self, smooth: float = 1e-5) -> None:
        self.smooth = float(smooth)
        super().__init__()

    def update(self, *inputs: Any) -> None:
        predicted, wanted = same_shape(self, inputs)
        self._put("both", np.array([(predicted * wanted).sum()]))
        self._put("sizes", np.array([(predicted**2).sum() + (wanted**2).sum()]))

    def eval(self) -> float:
        below = self._total("sizes") + self.smooth
        return 2 * self._total("both") / below if below else 0.0


class Perplexity(Gathering):
    """exp of the mean negative log of the probability that was given to the right token; scores are [..., vocabulary].

    >>> metric = Perplexity(); metric.update([[0.5, 0.5], [0.25, 0.75]], [0, 0]); round(metric.eval(), 4)
    2.8284
    """

    sums = ("total", "count")

    def __init__(self, ignore_label: int | None = None) -> None:
        self._ignore = ignore_label
        super().__init__()

    def update(self, *inputs: Any) -> None:
        chances, label = pair(self, inputs)
        if chances.shape[:-1] != label.shape:
            raise UsageError(f"Perplexity: probabilities {list(chances.shape)} do not fit labels {list(label.shape)}")
        chances = chances.reshape(-1, chances.shape[-1]).astype(np.float64)
        label = label.reshape(-1).astype(np.int64)
        if self._ignore is not None:
            kept = label != self._ignore
            chances, label = chances[kept], label[kept]
        right = chances[np.arange(len(label)), label]
        self._put("total", np.array([-np.log(np.maximum(right, 1e-10)).sum()]))
        self._put("count", np.array([len(label)]))

    def eval(self) -> float:
        return math.exp(self._total("total") / self._total("count"))


class BleuScore(Gathering):
    """BLEU of sentences that are lists of words, by torchmetrics: `update(candidates, references)`.

    >>> metric = BleuScore(2)
    >>> metric.update([["the", "cat", "sat", "down"]], [[["the", "cat", "sat", "here"], ["a", "cat", "sat"]]])
    >>> round(metric.eval(), 3)
    0.707
    """

    rows = ("pairs",)

    def __init__(self, n_gram: int = 4, smooth: bool = False) -> None:
        if n_gram not in (1, 2, 3, 4):
            raise UsageError(f"BleuScore: n_gram is {n_gram}; give 1 to 4")
        self._n = n_gram
        self._smooth = smooth
        super().__init__()

    def update(self, *inputs: Any) -> None:
        candidates, references = inputs
        if len(candidates) != len(references):
            raise UsageError(f"BleuScore: {len(candidates)} candidates and {len(references)} lists of references")
        for candidate, wanted in zip(candidates, references):
            row = np.empty(1, object)
            row[0] = (" ".join(candidate), [" ".join(reference) for reference in wanted])
            self._put("pairs", row)

    def eval(self) -> float:
        try:
            from torchmetrics.functional.text import bleu_score
        except ImportError:
            raise MissingExtra("torchmetrics", "kit", "the metric BLEU") from None
        pairs = list(self._value("pairs"))
        return float(bleu_score([one for one, _ in pairs], [many for _, many in pairs], self._n, self._smooth))
