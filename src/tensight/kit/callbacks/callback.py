"""The protocol: what a callback may implement, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensight.errors import CallbackError, UsageError

MOMENTS = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


class Params(dict[str, Any]):
    """What callbacks know of the training, as a dictionary whose entries are attributes too.

    Epochs and steps are counted from 1, steps through all epochs: `cur_epoch_num`, `cur_step_num`, `batch_num` (batches
    of an epoch, None when unknown), `epoch_num`; `network`, `train_network`, `loss_fn`, `optimizer`, `train_dataset`,
    `train_dataset_element` (the batch), `net_outputs` (the loss; in an evaluation what the network answered), `mode`
    ('train' or 'eval'), `metrics`. Anything may be added.

    >>> params = Params(cur_step_num=3)
    >>> params.init_time = 1.5
    >>> params["init_time"], params.cur_step_num, params.get("no such thing")
    (1.5, 3, None)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the training's parameters have no {name!r}; there are {', '.join(sorted(self))}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class RunContext:
    """Handed to every callback.

    >>> context = RunContext(Params(cur_step_num=1))
    >>> context.original_args().cur_step_num
    1
    >>> context.request_stop(); context.get_stop_requested()
    True
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self._stop = False

    def original_args(self) -> Params:
        """What is known of the training; the user's own entries are kept in it."""
        return self._params

    def request_stop(self) -> None:
        """End the training after this step; `epoch_end` and `end` are still called."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        return self._stop


class Callback:
    """Base of all callbacks. Implement what is of interest; in an evaluation the same six methods are called.

    To tell training and evaluation apart, implement `on_train_step_end`, `on_eval_step_end` and so on instead.

    >>> class Shout(Callback):
    ...     def step_end(self, run_context):
    ...         print("step", run_context.original_args().cur_step_num)
    >>> from tensight.kit.callbacks.driver import Driver
    >>> driver = Driver([Shout()])
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(0.5)
    step 1
    """

    def begin(self, run_context: RunContext) -> None:
        """Before the first epoch."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Before each epoch."""

    def epoch_end(self, run_context: RunContext) -> None:
        """After each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Before each step."""

    def step_end(self, run_context: RunContext) -> None:
        """After each step; `net_outputs` holds the loss."""

    def end(self, run_context: RunContext) -> None:
        """After the last epoch."""

    def release(self) -> None:
        """After everything, also when the training failed: give back what is held, a file or a signal's handler."""

    def on_train_begin(self, run_context: RunContext) -> None:
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        self.step_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        self.step_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        self.end(run_context)


Callbacks = Callback | Sequence[Callback] | None


class CallbackList:
    """Callbacks in their order; the first that fails ends the training by an error that names it.

    >>> CallbackList([3])
    Traceback (most recent call last):
    tensight.errors.UsageError: callbacks: 3 is no callback; derive a class from tensight.kit.Callback
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks: list[Any] = [] if callbacks is None else [callbacks]
        if isinstance(callbacks, (list, tuple)):
            self.callbacks = list(callbacks)
        for one in self.callbacks:
            if not hasattr(one, "on_train_step_end"):
                raise UsageError(f"callbacks: {one!r} is no callback; derive a class from tensight.kit.Callback")

    def call(self, moment: str, mode: str, context: RunContext) -> None:
        """Call `moment` ('step_end', …) of all, as it is named in this mode."""
        for callback in self.callbacks:
            try:
                getattr(callback, f"on_{mode}_{moment}")(context)
            except Exception as error:
                params = context.original_args()
                raise CallbackError(
                    f"callback {type(callback).__name__} failed in {moment} (epoch {params.get('cur_epoch_num')}, step"
                    f" {params.get('cur_step_num')}): {type(error).__name__}: {error}"
                ) from error
