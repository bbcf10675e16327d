"""Drives a list of callbacks: the one place that counts epochs and steps, whoever runs the training."""

from __future__ import annotations

from typing import Any

from tensight.kit.callbacks.callback import CallbackList, Callbacks, Params, RunContext


class Driver:
    """Told what happens in a training by whoever runs it, and tells the callbacks.

    `Model.train`, a plain loop, Lightning, Transformers, Accelerate and MindSpore's Model all go through it, so that
    a callback sees the same calls with the same arguments everywhere.

    >>> from tensight.kit import LambdaCallback
    >>> seen = LambdaCallback(on_train_step_end=lambda context: print(context.original_args().net_outputs))
    >>> driver = Driver(seen); driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(0.5)
    0.5
    """

    def __init__(self, callbacks: Callbacks, mode: str = "train", **known: Any) -> None:
        self.callbacks = CallbackList(callbacks)
        self.mode = mode
        self.params = Params(
            network=None,
            train_network=None,
            loss_fn=None,
            optimizer=None,
            train_dataset=None,
            train_dataset_element=None,
            net_outputs=None,
            epoch_num=1,
            batch_num=None,
            cur_epoch_num=0,
            cur_step_num=0,
            metrics={},
            mode=mode,
            dataset_sink_mode=False,
        )
        self.params.update(known)
        if self.params["train_network"] is None:
            self.params["train_network"] = self.params["network"]
        self.params["list_callback"] = self.callbacks.callbacks
        self.context = RunContext(self.params)
        self._open: list[str] = []

    @property
    def stopping(self) -> bool:
        """Whether a callback asked for the end."""
        return self.context.get_stop_requested()

    def begin(self) -> None:
        self._enter("training")
        self._tell("begin")

    def epoch_begin(self) -> None:
        self._enter("epoch")
        self.params["cur_epoch_num"] += 1
        self._tell("epoch_begin")

    def step_begin(self, batch: Any = None) -> None:
        self.params["cur_step_num"] += 1
        self.params["train_dataset_element"] = batch
        self._tell("step_begin")

    def step_end(self, outputs: Any = None) -> None:
        self.params["net_outputs"] = outputs
        self._tell("step_end")

    def epoch_end(self) -> None:
        """Does nothing when no epoch has begun: some trainers say it twice when they stop."""
        if self._leave("epoch"):
            self._tell("epoch_end")

    def end(self) -> None:
        if self._leave("training"):
            self._tell("end")

    def release(self) -> None:
        """The training is over, whether it ended well or not; a second time does nothing."""
        self._open.clear()
        for callback in self.callbacks.callbacks:
            release = getattr(callback, "release", None)
            if release is not None:
                release()

    def _enter(self, what: str) -> None:
        self._open.append(what)

    def _leave(self, what: str) -> bool:
        if what not in self._open:
            return False
        self._open.remove(what)
        return True

    def _tell(self, moment: str) -> None:
        self.callbacks.call(moment, self.mode, self.context)
