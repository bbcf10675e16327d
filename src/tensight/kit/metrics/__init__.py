"""Metrics by the names that MindSpore gives them, for any framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tensight.errors import UsageError
from tensight.kit.metrics.classification import (
    AUC,
    F1,
    ROC,
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from tensight.kit.metrics.metric import Metric
from tensight.kit.metrics.regression import (
    MAE,
    MSE,
    BleuScore,
    CosineSimilarity,
    Dice,
    Loss,
    Perplexity,
    Tolerance,
)

# One line adds a metric that can be asked for by name.
NAMES: dict[str, Callable[[], Metric]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "precision": Precision,
    "recall": Recall,
    "F1": F1,
    "f1_score": F1,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "roc": ROC,
    "auc": AUC,
    "loss": Loss,
    "mae": MAE,
    "mse": MSE,
    "tolerance": Tolerance,
    "cosine_similarity": CosineSimilarity,
    "dice": Dice,
    "perplexity": Perplexity,
    "bleu_score": BleuScore,
}


def metrics_of(given: Mapping[str, Metric] | Iterable[str] | None) -> dict[str, Metric]:
    """A dictionary of metrics, out of one or out of names.

    >>> sorted(metrics_of({"accuracy", "loss"}))
    ['accuracy', 'loss']
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name, metric in given.items():
            if not all(hasattr(metric, part) for part in ("clear", "update", "eval")):
                raise UsageError(f"metrics: {name!r} has no clear, update and eval; derive it from tensight.kit.Metric")
        return dict(given)
    names = [given] if isinstance(given, str) else list(given)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise UsageError(f"metrics: there is no {unknown[0]!r}; there are {', '.join(NAMES)}")
    return {name: NAMES[name]() for name in names}


__all__ = [
    "AUC",
    "F1",
    "MAE",
    "MSE",
    "NAMES",
    "ROC",
    "Accuracy",
    "BleuScore",
    "ConfusionMatrix",
    "CosineSimilarity",
    "Dice",
    "Fbeta",
    "Loss",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Tolerance",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "metrics_of",
]
