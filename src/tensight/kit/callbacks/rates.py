"""Callbacks that change the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensight.errors import UsageError
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Callback, Params, RunContext
from tensight.kit.callbacks.values import Best, monitored


class LearningRateScheduler(Callback):
    """Sets the learning rate after every step to `function(rate, step)`; steps are counted from 1.

    A schedule of `tensight.kit.schedules` takes the step alone: hand it in as it is.

    >>> import torch
    >>> from tensight.kit.callbacks.driver import Driver
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    >>> driver = Driver(LearningRateScheduler(lambda rate, step: rate / 2), optimizer=optimizer)
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end()
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """

    def __init__(self, learning_rate_function: Callable[..., float]) -> None:
        self._function = learning_rate_function

    def on_train_begin(self, run_context: RunContext) -> None:
        if getattr(self._function, "by_step", False):
            self._set(run_context.original_args(), self._function(0))

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if getattr(self._function, "by_step", False):
            self._set(params, self._function(params.cur_step_num))
        else:
            self._set(params, self._function(rate_of(params), params.cur_step_num))

    def _set(self, params: Params, rate: float) -> None:
        if not isinstance(rate, (int, float)) or not math.isfinite(rate) or rate < 0:
            raise UsageError(
                f"LearningRateScheduler: {rate!r} is no learning rate; the function must answer a number >= 0"
            )
        set_rate(params, float(rate))


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` when a value has not become better for `patience` epochs.

    >>> import torch
    >>> from tensight.kit.callbacks.driver import Driver
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    >>> driver = Driver(ReduceLROnPlateau("loss", factor=0.5, patience=1, verbose=True), optimizer=optimizer)
    >>> driver.begin()
    >>> for loss in (1.0, 1.5):
    ...     driver.epoch_begin(); driver.step_begin(); driver.step_end(loss); driver.epoch_end()
    epoch 2: learning rate 0.1 → 0.05
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        if not 0 < factor < 1:
            raise UsageError(f"ReduceLROnPlateau: factor is {factor}; give a number between 0 and 1")
        self._monitor = monitor
        self._factor = factor
        self._patience = patience
        self._verbose = verbose
        self._best = Best(monitor, mode, min_delta)
        self._cooldown = cooldown
        self._least = min_lr
        self._wait = self._cooling = 0

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        value = monitored(params, self._monitor)
        if value is None:
            raise UsageError(
                f"ReduceLROnPlateau: there is no {self._monitor!r} to watch; use Model.fit, or monitor 'loss'"
            )
        if self._cooling:
            self._cooling -= 1
            self._wait = 0
        if self._best.better(value):
            self._wait = 0
        elif not self._cooling:
            self._wait += 1
            if self._wait >= self._patience:
                self._reduce(params)

    def _reduce(self, params: Params) -> None:
        rate = rate_of(params)
        if rate > self._least:
            new = max(rate * self._factor, self._least)
            set_rate(params, new)
            self._cooling, self._wait = self._cooldown, 0
            if self._verbose:
                print(f"epoch {params.cur_epoch_num}: learning rate {rate:g} → {new:g}")


def rate_of(params: Params) -> float:
    """The learning rate of the training's optimizer."""
    rate = backend_of(params.optimizer).rate(params.optimizer)
    if rate is None:
        raise UsageError(f"the learning rate of {type(params.optimizer).__name__} is no number and cannot be changed")
    return rate


def set_rate(params: Params, rate: float) -> None:
    backend_of(params.optimizer).set_rate(params.optimizer, rate)
