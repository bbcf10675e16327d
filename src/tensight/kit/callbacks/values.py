"""Small questions that several callbacks ask of the training's parameters."""

from __future__ import annotations

import math
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import number
from tensight.kit.callbacks.callback import Params


def loss_of(params: Params) -> float | None:
    """The loss of the last step.

    >>> loss_of(Params(net_outputs=(0.5, False)))
    0.5
    """
    return number(params.get("net_outputs"))


def step_in_epoch(params: Params) -> int:
    """The step as people count it inside an epoch, from 1.

    >>> step_in_epoch(Params(cur_step_num=33, batch_num=32)), step_in_epoch(Params(cur_step_num=33, batch_num=None))
    (1, 33)
    """
    step, batches = int(params["cur_step_num"]), params.get("batch_num")
    return (step - 1) % int(batches) + 1 if batches else step


def monitored(params: Params, name: str) -> float | None:
    """The value that a callback watches: 'loss', or 'eval_accuracy' and the like out of the last evaluation.

    >>> monitored(Params(metrics={"accuracy": 0.9}), "eval_accuracy")
    0.9
    """
    if name == "loss":
        return loss_of(params)
    metrics: dict[str, Any] = params.get("metrics") or {}
    for key in (name, name.removeprefix("eval_")):
        if key in metrics:
            return number(metrics[key])
    return None


class Best:
    """Whether a value is better than those before.

    >>> best = Best("eval_accuracy", "auto", 0.01)
    >>> [best.better(value) for value in (0.5, 0.505, 0.6)], best.value
    ([True, False, True], 0.6)
    >>> Best("loss", "auto").better(float("nan"))
    False
    """

    def __init__(self, name: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise UsageError(f"mode {mode!r} is none of auto, min, max")
        up = mode == "max" or (
            mode == "auto" and any(word in name for word in ("acc", "f1", "F1", "auc", "precision", "recall"))
        )
        self._sign = 1.0 if up else -1.0
        self._delta = abs(min_delta)
        self.forget()

    def forget(self, value: float | None = None) -> None:
        """Begin again: from nothing, or from a value that has to be surpassed."""
        self.value = -self._sign * math.inf if value is None else value

    def better(self, value: float) -> bool:
        if math.isnan(value) or not (self._sign * (value - self.value) > self._delta or math.isinf(self.value)):
            return False
        self.value = value
        return True
