"""Callbacks that end a training: at a time, without progress, on a signal."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Callback, RunContext
from tensight.kit.callbacks.values import Best, loss_of, monitored, step_in_epoch
from tensight.kit.checkpoints import save_checkpoint


class StopAtTime(Callback):
    """Ends the training after `run_time` minutes and prints where it stands.

    >>> from tensight.kit.callbacks.driver import Driver
    >>> driver = Driver(StopAtTime(0), batch_num=32)
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(2.5)
    epoch:  1  step:  1  loss:  2.5
    >>> driver.stopping
    True
    """

    def __init__(self, run_time: float) -> None:
        if run_time < 0:
            raise UsageError(f"StopAtTime: {run_time} minutes are over before the start; give 0 or more")
        self.run_time = run_time * 60

    def on_train_begin(self, run_context: RunContext) -> None:
        run_context.original_args().init_time = time.time()

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if time.time() - params.init_time >= self.run_time:
            print("epoch: ", params.cur_epoch_num, " step: ", step_in_epoch(params), " loss: ", loss_of(params))
            run_context.request_stop()


class EarlyStopping(Callback):
    """Ends the training when a value has not become better for `patience` epochs, counted as MindSpore does.

    `monitor` is 'loss' or a metric of the evaluation in `Model.fit` ('eval_loss', 'eval_accuracy'). With a `baseline`
    only what is better than that too counts as better. An epoch that is better never ends the training: with the
    patience of 0 that is the default, MindSpore's own ends after the first epoch, whatever it brought.

    >>> from tensight.kit.callbacks.driver import Driver
    >>> driver = Driver(EarlyStopping("loss", patience=2)); driver.begin()
    >>> for loss in (1.0, 0.5, 0.6, 0.7):
    ...     driver.epoch_begin(); driver.step_begin(); driver.step_end(loss); driver.epoch_end()
    ...     print(loss, driver.stopping)
    1.0 False
    0.5 False
    0.6 False
    0.7 True
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: bool = False,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        self._monitor = monitor
        self._best = Best(monitor, mode, min_delta)
        self._enough = Best(monitor, mode, min_delta)
        self._patience = patience
        self._verbose = verbose
        self._baseline = baseline
        self._restore = restore_best_weights
        self._weights: dict[str, Any] | None = None
        self._wait = 0
        self.stopped_epoch = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._wait = self.stopped_epoch = 0
        self._weights = None
        self._best.forget()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        value = monitored(params, self._monitor)
        if value is None:
            known = ", ".join(["loss", *(params.get("metrics") or {})])
            raise UsageError(f"EarlyStopping: there is no {self._monitor!r} to watch; there are {known}")
        self._wait += 1
        if self._best.better(value):
            if self._restore:
                self._weights = backend_of(params.network).state(params.network)
            self._enough.forget(self._baseline)
            if self._enough.better(value):
                self._wait = 0
                return
        if self._wait >= self._patience:
            self.stopped_epoch = params.cur_epoch_num
            run_context.request_stop()
            if self._weights is not None:
                backend_of(params.network).load_state(params.network, self._weights)
            if self._verbose:
                print(f"epoch {params.cur_epoch_num}: {self._monitor} has not become better than {self._best.value}")


class OnRequestExit(Callback):
    """Saves a checkpoint and ends the training after the running step when a signal comes (SIGTERM).

    The signal's handler of before is put back at the end. Outside the main thread signals cannot be caught: then it
    does nothing.

    >>> import signal
    >>> from tensight.kit.callbacks.driver import Driver
    >>> driver = Driver(OnRequestExit(save_ckpt=False, sig=signal.SIGINT))
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); signal.raise_signal(signal.SIGINT); driver.step_end()
    >>> driver.stopping
    True
    >>> driver.release()
    """

    def __init__(
        self, save_ckpt: bool = True, directory: str | Path = "./", file_name: str = "Net", sig: int = signal.SIGTERM
    ) -> None:
        self._save = save_ckpt
        self._path = Path(directory) / file_name
        self._signal = sig
        self._before: Any = None
        self._set = False
        self.requested = False

    def on_train_begin(self, run_context: RunContext) -> None:
        self.requested = False
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(self._signal, self._asked)
            self._set = True

    def on_train_step_end(self, run_context: RunContext) -> None:
        if self.requested:
            self._leave(run_context)

    def release(self) -> None:
        if self._set:
            signal.signal(self._signal, self._before if self._before is not None else signal.SIG_DFL)
            self._set = False

    def _asked(self, number: int, frame: Any) -> None:
        self.requested = True

    def _leave(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        run_context.request_stop()
        if self._save:
            saved = save_checkpoint(params.train_network, f"{self._path}_train.safetensors")
            print(f"signal {self._signal}: saved {saved}; the training ends after step {params.cur_step_num}")
