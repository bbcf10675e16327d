"""Metrics of classes: accuracy, precision, recall, F-scores, top-k, confusion matrix, ROC and its area."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensight.errors import MissingExtra, UsageError
from tensight.kit.backend import Array
from tensight.kit.metrics.metric import Gathering, pair


class ByClass(Gathering):
    """For each class: how often it was predicted, was right, and both.

    `eval_type` 'classification': predictions are scores [N, C, …] or classes [N, …]; labels are classes [N, …] or one
    of C set [N, C, …]. 'multilabel': both are 0 or 1, [N, C, …].
    """

    sums = ("both", "predicted", "actual", "right", "samples")

    def __init__(self, eval_type: str = "classification") -> None:
        if eval_type not in ("classification", "multilabel"):
            raise UsageError(f"{type(self).__name__}: eval_type {eval_type!r} is none of classification, multilabel")
        self._type = eval_type
        super().__init__()

    def update(self, *inputs: Any) -> None:
        predicted, wanted = pair(self, inputs)
        if self._type == "multilabel":
            self._multilabel(predicted, wanted)
            return
        classes = predicted.shape[1] if predicted.ndim == wanted.ndim + 1 or predicted.ndim > 1 else 0
        guess, label = class_numbers(self, predicted, wanted)
        size = max(classes, int(guess.max(initial=-1)) + 1, int(label.max(initial=-1)) + 1)
        hit = guess == label
        self._put("both", np.bincount(label[hit], minlength=size))
        self._put("predicted", np.bincount(guess, minlength=size))
        self._put("actual", np.bincount(label, minlength=size))
        self._put("right", np.array([hit.sum()]))
        self._put("samples", np.array([hit.size]))

    def _multilabel(self, predicted: Array, wanted: Array) -> None:
        if predicted.shape != wanted.shape or predicted.ndim < 2:
            raise UsageError(
                f"{type(self).__name__}: multilabel predictions and labels are [N, C] of 0 and 1, not"
                f" {list(predicted.shape)} and {list(wanted.shape)}"
            )
        classes = predicted.shape[1]
        guess = np.moveaxis(predicted, 1, -1).reshape(-1, classes) == 1
        label = np.moveaxis(wanted, 1, -1).reshape(-1, classes) == 1
        self._put("both", (guess & label).sum(0))
        self._put("predicted", guess.sum(0))
        self._put("actual", label.sum(0))
        self._put("right", np.array([(guess == label).all(1).sum()]))
        self._put("samples", np.array([len(label)]))

    def _ratio(self, above: Array, below: Array, average: bool) -> Any:
        """By class; 0 where a class never occurs."""
        values = np.divide(above, below, out=np.zeros(len(above)), where=below != 0)
        return float(values.mean()) if average else values


class Accuracy(ByClass):
    """The share of samples that are right.

    >>> metric = Accuracy()
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> round(metric.eval(), 4)
    0.6667
    """

    def eval(self) -> float:
        return self._total("right") / self._total("samples")


class Precision(ByClass):
    """For each class: of those predicted, the share that is right. `eval(average=True)` is their mean.

    >>> metric = Precision()
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> metric.eval().tolist()
    [0.5, 1.0]
    """

    def eval(self, average: bool = False) -> Any:
        return self._ratio(self._value("both"), self._value("predicted"), average)


class Recall(ByClass):
    """For each class: of those that are, the share that was predicted.

    >>> metric = Recall()
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> metric.eval().tolist()
    [1.0, 0.5]
    """

    def eval(self, average: bool = False) -> Any:
        return self._ratio(self._value("both"), self._value("actual"), average)


class Fbeta(ByClass):
    """For each class: the harmonic mean of precision and recall, recall counted beta times as much.

    >>> metric = Fbeta(2)
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> metric.eval().round(4).tolist()
    [0.8333, 0.5556]
    """

    def __init__(self, beta: float, eval_type: str = "classification") -> None:
        if not beta > 0:
            raise UsageError(f"Fbeta: beta is {beta}; give a number above 0")
        self.beta = float(beta)
        super().__init__(eval_type)

    def eval(self, average: bool = False) -> Any:
        square = self.beta**2
        both = self._value("both")
        return self._ratio((1 + square) * both, self._value("predicted") + square * self._value("actual"), average)


class F1(Fbeta):
    """For each class: the harmonic mean of precision and recall.

    >>> metric = F1()
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> metric.eval().round(4).tolist()
    [0.6667, 0.6667]
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(1.0, eval_type)


class TopKCategoricalAccuracy(Gathering):
    """The share of samples whose label is among the k highest scores.

    >>> metric = TopKCategoricalAccuracy(2)
    >>> metric.update([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1]], [1, 2])
    >>> metric.eval()
    0.5
    """

    sums = ("right", "samples")

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise UsageError(f"top-k: k is {k!r}; give a whole number from 1 on")
        self.k = k
        super().__init__()

    def update(self, *inputs: Any) -> None:
        scores, label = pair(self, inputs)
        if scores.ndim != 2:
            raise UsageError(f"top-k: scores are [N, C], not {list(scores.shape)}")
        if label.ndim == 2:
            label = label.argmax(1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        self._put("right", np.array([(best == label.reshape(-1, 1)).any(1).sum()]))
        self._put("samples", np.array([len(scores)]))

    def eval(self) -> float:
        return self._total("right") / self._total("samples")


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """Top-k with k = 1.

    >>> metric = Top1CategoricalAccuracy()
    >>> metric.update([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1]], [2, 2])
    >>> metric.eval()
    0.5
    """

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """Top-k with k = 5.

    >>> metric = Top5CategoricalAccuracy()
    >>> metric.update([[0.1, 0.1, 0.1, 0.3, 0.2, 0.2], [0.0, 0.2, 0.2, 0.2, 0.2, 0.2]], [0, 0])
    >>> metric.eval()
    0.5
    """

    def __init__(self) -> None:
        super().__init__(5)


class ConfusionMatrix(Gathering):
    """How often class i (row) was predicted as class j (column). `normalize`: 'no_norm', 'target', 'prediction', 'all'.

    >>> metric = ConfusionMatrix(2)
    >>> metric.update([0, 1, 1], [0, 0, 1])
    >>> metric.eval().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """

    sums = ("table",)

    def __init__(self, num_classes: int, normalize: str = "no_norm", threshold: float = 0.5) -> None:
        if normalize not in ("no_norm", "target", "prediction", "all"):
            raise UsageError(f"ConfusionMatrix: normalize {normalize!r} is none of no_norm, target, prediction, all")
        self._classes = num_classes
        self._normalize = normalize
        self._threshold = threshold
        super().__init__()

    def update(self, *inputs: Any) -> None:
        predicted, wanted = pair(self, inputs)
        if predicted.ndim == wanted.ndim and predicted.dtype.kind == "f" and self._classes == 2:
            predicted = (predicted > self._threshold).astype(np.int64)
        guess, label = class_numbers(self, predicted, wanted)
        if max(guess.max(initial=0), label.max(initial=0)) >= self._classes:
            raise UsageError(f"ConfusionMatrix: there is a class beyond the {self._classes} that were said")
        flat = np.bincount(label * self._classes + guess, minlength=self._classes**2)
        self._put("table", flat.reshape(self._classes, self._classes))

    def eval(self) -> Array:
        table = self._value("table").astype(np.float64)
        if self._normalize == "no_norm":
            return table
        whole = {"target": table.sum(1, keepdims=True), "prediction": table.sum(0, keepdims=True)}
        below = whole.get(self._normalize, table.sum(keepdims=True))
        return np.divide(table, below, out=np.zeros_like(table), where=below != 0)


class ROC(Gathering):
    """The ROC curve, by scikit-learn: `eval` answers false positive rates, true positive rates and thresholds.

    `pos_label` is the class that counts as positive; scores are [N], or [N, C] with a column for that class.

    >>> metric = ROC()
    >>> metric.update([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> wrong, right, _ = metric.eval()
    >>> wrong.tolist(), right.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """

    rows = ("scores", "labels")

    def __init__(self, class_num: int | None = None, pos_label: int = 1) -> None:
        self._positive = pos_label
        super().__init__()

    def update(self, *inputs: Any) -> None:
        scores, label = pair(self, inputs)
        if scores.ndim == 2:
            scores = scores[:, min(self._positive, scores.shape[1] - 1)]
        self._put("scores", scores.reshape(-1).astype(np.float64))
        self._put("labels", (label.reshape(-1) == self._positive).astype(np.int8))

    def eval(self) -> Any:
        fpr, tpr, thresholds = _sklearn().roc_curve(self._value("labels"), self._value("scores"))
        return fpr, tpr, thresholds


class AUC(ROC):
    """The area under the ROC curve.

    >>> metric = AUC()
    >>> metric.update([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> metric.eval()
    0.75
    """

    def eval(self) -> float:
        return float(_sklearn().roc_auc_score(self._value("labels"), self._value("scores")))


def class_numbers(metric: object, predicted: Array, wanted: Array) -> tuple[Array, Array]:
    """Predicted and right classes, flat: of scores the class dimension is the second."""
    if wanted.ndim == predicted.ndim and wanted.ndim > 1 and _one_of(wanted):
        wanted = wanted.argmax(1)
    if predicted.ndim == wanted.ndim + 1:
        predicted = predicted.argmax(1)
    if predicted.shape != wanted.shape:
        raise UsageError(
            f"{type(metric).__name__}.update: predictions {list(predicted.shape)} do not fit labels"
            f" {list(wanted.shape)}; scores are [N, C, …] and labels [N, …]"
        )
    return _whole(metric, predicted), _whole(metric, wanted)


def _one_of(labels: Array) -> bool:
    return bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())


def _whole(metric: object, classes: Array) -> Array:
    numbers: Sequence[Any] | Array = classes.reshape(-1)
    whole = np.asarray(numbers).astype(np.int64)
    if (whole != numbers).any() or (whole < 0).any():
        raise UsageError(f"{type(metric).__name__}.update: classes are whole numbers from 0 on")
    return whole


def _sklearn() -> Any:
    try:
        import sklearn.metrics
    except ImportError:
        raise MissingExtra("scikit-learn", "kit", "the metrics ROC and AUC") from None
    return sklearn.metrics
