"""What callbacks print: the loss, the time, the loss scale."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from tensight.errors import UsageError
from tensight.kit import trouble
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Callback, Params, RunContext
from tensight.kit.callbacks.values import loss_of, step_in_epoch
from tensight.kit.precision import scale_one_test


class LossMonitor(Callback):
    """Prints the loss every `per_print_times` steps (0: never) and ends the training when it is NaN or Inf.

    The end comes with what is known of the cause: the finding of a running session, or the values that are bad.

    >>> from tensight.kit.callbacks.driver import Driver
    >>> driver = Driver(LossMonitor(), batch_num=2)
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(0.25)
    epoch: 1 step: 1, loss is 0.25
    """

    def __init__(self, per_print_times: int = 1) -> None:
        if not isinstance(per_print_times, int) or per_print_times < 0:
            raise UsageError(f"LossMonitor: per_print_times is {per_print_times!r}; give a number from 0 on")
        self._every = per_print_times
        self._last = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._last = 0

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        loss = loss_of(params)
        step = step_in_epoch(params)
        if loss is not None and not math.isfinite(loss):
            run_context.request_stop()
            print(trouble.block(params, loss, step), file=sys.stderr, flush=True)
        elif self._every and params.cur_step_num - self._last >= self._every:
            self._last = params.cur_step_num
            print(f"epoch: {params.cur_epoch_num} step: {step}, loss is {loss}", flush=True)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if params.get("metrics"):
            print(f"Eval result: epoch {params.cur_epoch_num}, metrics: {params.metrics}", flush=True)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """An evaluation has its metrics; its loss is one of them."""


class TimeMonitor(Callback):
    """Prints how long an epoch and a step of it took, and with `data_time` how long the data was waited for."""

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        self._size = data_size
        self._data = data_time
        self._start = self._waiting = time.perf_counter()
        self._waited = 0.0
        self._steps = 0

    def epoch_begin(self, run_context: RunContext) -> None:
        self._start = self._waiting = time.perf_counter()
        self._waited = 0.0
        self._steps = 0

    def step_begin(self, run_context: RunContext) -> None:
        self._waited += time.perf_counter() - self._waiting

    def step_end(self, run_context: RunContext) -> None:
        self._steps += 1
        self._waiting = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        whole = 1000 * (time.perf_counter() - self._start)
        steps = self._size or self._steps or 1
        word = "Train" if run_context.original_args().get("mode") != "eval" else "Eval"
        data = f", data time: {1000 * self._waited / steps:.3f} ms" if self._data else ""
        print(f"{word} epoch time: {whole:.3f} ms, per step time: {whole / steps:.3f} ms{data}", flush=True)


class LossScaleMonitor(Callback):
    """Prints step, loss, overflow and scale after every step; advice, and the operator, when overflows do not end.

    The scale is that of the `Model`, or of a scaler that is handed in: `torch.amp.GradScaler`, MindSpore's
    `DynamicLossScaler`. Steps are counted from 0 in this line. After three overflows in a row the step is run once more
    with a scale of 1 to name the operator that overflows (`attribute`); the training is put back as it was.
    """

    def __init__(self, scaler: Any = None, per_print_times: int = 1, attribute: bool = True) -> None:
        self._scaler = scaler
        self._attribute = attribute
        self._every = per_print_times
        self._before: float | None = None
        self._row = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._before = self._scale(run_context)
        self._row = 0

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        scale = self._scale(run_context)
        overflow = params.get("overflow")
        if overflow is None:
            overflow = scale is not None and self._before is not None and scale < self._before
        self._before = scale
        self._row = self._row + 1 if overflow else 0
        if self._every and (params.cur_step_num - 1) % self._every == 0:
            print(
                f"step: {params.cur_step_num - 1}, loss: {loss_of(params)}, overflow:{bool(overflow)}, scale:{scale}",
                flush=True,
            )
        if self._row == 3 and self._attribute:
            self._blame(params, scale)
        said = params.get("loss_scale_advice")
        if self._row and self._row % 10 == 0:
            print(f"loss scale: {said or advice(self._row, scale)}", file=sys.stderr, flush=True)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Nothing is scaled in an evaluation."""

    def _blame(self, params: Params, scale: float | None) -> None:
        network, batch = params.get("network"), params.get("train_dataset_element")
        if network is None or batch is None or params.get("optimizer") is None:
            return
        found = scale_one_test(network, params.get("loss_fn"), params.optimizer, batch, scale or 1.0)
        print(f"loss scale: {found.verdict}", file=sys.stderr, flush=True)

    def _scale(self, run_context: RunContext) -> float | None:
        if self._scaler is not None:
            params = run_context.original_args()
            return backend_of(params.get("network"), params.get("optimizer")).scale_of(self._scaler)
        scale: float | None = run_context.original_args().get("loss_scale")
        return scale


def advice(overflows: int, scale: float | None) -> str:
    """What to do about overflows that do not end.

    >>> "an operator overflows whatever the scale" in advice(10, 1.0)
    True
    """
    if scale is not None and scale <= 1:
        return (
            f"overflow in {overflows} steps in a row with a scale of {scale}: an operator overflows whatever the scale;"
            " find it with tensight.kit.precision.scale_one_test"
        )
    return (
        f"overflow in {overflows} steps in a row, scale {scale}: a fixed scale must be lowered; a dynamic one falls by"
        " itself and if it does not recover an operator overflows"
    )
