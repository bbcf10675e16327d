"""Weights of classes against how often the classes come: they are given to make up for rare ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tensight.frameworks.adapter import Array
from tensight.frameworks.torch.watching import to_numpy
from tensight.records.event import Value

_MOST_LABELS = 65_536  # of one batch
_MOST_CLASSES = 4_096
_FEWEST = 3  # times that a class must have come to be counted
Place = object  # where a loss is computed: each has labels of its own


class ClassWeights:
    """Counts labels of losses that weigh classes.

    >>> weights, seen = torch.tensor([0.9, 0.09, 0.01]), torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    >>> told = ClassWeights().facts("here", "cross_entropy", (None, seen, weights), {})
    >>> round(told["weight_slope"], 2), round(told["weight_fit"], 2), told["rare_class"], told["rare_count"]
    (1.0, 1.0, 2, 10)
    >>> round(ClassWeights().facts("here", "cross_entropy", (None, seen), {"weight": 1 / weights})["weight_slope"], 2)
    -1.0
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[Place, int], Array] = {}  # (place, number of classes) → how often each came

    def facts(self, place: Place, function: str, args: tuple, kwargs: dict[str, Any]) -> dict[str, Value]:
        """How the weights of a call follow the labels so far; {} where classes are not weighed."""
        target: Any = args[1] if len(args) > 1 else kwargs.get("target")
        if function in ("cross_entropy", "nll_loss"):
            weight = args[2] if len(args) > 2 else kwargs.get("weight")
            return self._follow(place, weight, target)
        if function == "binary_cross_entropy_with_logits":
            positive: Any = kwargs.get("pos_weight")  # nn.BCEWithLogitsLoss gives it by name, too
            if type(positive) is torch.Tensor and positive.numel() == 1 and type(target) is torch.Tensor:
                pair = torch.stack([torch.ones(()), positive.detach().reshape(()).float().cpu()])
                return self._follow(place, pair, (target.detach() > 0.5).long())
        return {}

    def _follow(self, place: Place, weight: Any, target: Any) -> dict[str, Value]:
        if type(weight) is not torch.Tensor or type(target) is not torch.Tensor or target.is_floating_point():
            return {}
        classes = weight.numel()
        if weight.dim() != 1 or not 2 <= classes <= _MOST_CLASSES or target.is_complex():
            return {}
        labels = to_numpy(target.detach().reshape(-1)[:_MOST_LABELS], copy=False).astype(np.int64)
        seen = np.bincount(labels[(labels >= 0) & (labels < classes)], minlength=classes)
        counts = self._counts[place, classes] = self._counts.get((place, classes), 0) + seen
        given = to_numpy(weight.detach()).astype(np.float64)
        used = np.flatnonzero((counts >= _FEWEST) & (given > 0))
        if len(used) < 2 or (given < 0).any():
            return {}
        x, y = np.log(counts[used].astype(np.float64)), np.log(given[used])
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            return {}
        slope, fit = np.cov(x, y)[0, 1] / np.var(x, ddof=1), np.corrcoef(x, y)[0, 1]
        rare, common = int(used[counts[used].argmin()]), int(used[counts[used].argmax()])
        total = float(counts.sum())
        return {
            "weight_slope": float(slope),
            "weight_fit": float(fit),
            "weighed_classes": len(used),
            "count_ratio": math.exp(np.ptp(x)),
            "rare_class": rare,
            "rare_count": int(counts[rare]),
            "rare_share": float(counts[rare]) / total,
            "rare_weight": float(given[rare]),
            "common_class": common,
            "common_share": float(counts[common]) / total,
            "common_weight": float(given[common]),
        }
