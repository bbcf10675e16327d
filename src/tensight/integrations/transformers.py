"""The kit's callbacks in the Trainer of Transformers: `add_callbacks(trainer, [LossMonitor(), …])`."""

from __future__ import annotations

import math
from typing import Any

from tensight.errors import MissingExtra
from tensight.kit.callbacks.callback import Callbacks
from tensight.kit.callbacks.driver import Driver

try:
    from transformers import TrainerCallback
except ImportError:
    raise MissingExtra("transformers", "trainers", "tensight.integrations.transformers") from None


def add_callbacks(trainer: Any, callbacks: Callbacks) -> KitCallback:
    """Hand what a Trainer does to callbacks of the kit. A step is an update of the weights, as Transformers counts."""
    bridge = KitCallback(callbacks)
    trainer.add_callback(bridge)
    original = trainer.training_step

    def training_step(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        bridge.batch = inputs
        try:
            loss = original(model, inputs, *args, **kwargs)
        except BaseException:
            bridge.release()
            raise
        bridge.losses.append(loss)
        return loss

    # Its callbacks are told neither loss nor batch, so the one call that sees both is listened to.
    trainer.training_step = training_step
    return bridge


class KitCallback(TrainerCallback):  # type: ignore[misc]
    """Made by `add_callbacks`."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._driver: Driver | None = None
        self._waiting = False
        self.batch: Any = None
        self.losses: list[Any] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        loader = kwargs.get("train_dataloader")
        count = len(loader) if loader is not None and hasattr(loader, "__len__") else None
        updates = None if count is None else max(1, -(-count // args.gradient_accumulation_steps))
        self._driver = Driver(
            self._callbacks,
            network=kwargs.get("model"),
            optimizer=getattr(kwargs.get("optimizer"), "optimizer", kwargs.get("optimizer")),
            train_dataset=loader,
            epoch_num=math.ceil(state.num_train_epochs) if state.num_train_epochs else 1,
            batch_num=updates,
        )
        self._driver.begin()
        self._follow(control)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._driver is not None:
            self._driver.epoch_begin()
            self._follow(control)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._driver is not None:
            self.losses.clear()
            self._driver.step_begin()
            self._follow(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._driver is not None:
            self._driver.params.train_dataset_element = self.batch
            # parts of one update are already divided by their number
            self._driver.step_end(sum(self.losses[1:], self.losses[0]) if self.losses else None)
            self._follow(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        if self._driver is not None and metrics:
            self._driver.params.metrics = dict(metrics)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._driver is not None:
            self._driver.epoch_end()
            self._follow(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._driver is not None:
            self._driver.end()
            self.release()

    def release(self) -> None:
        """The training is over, well or not."""
        if self._driver is not None:
            self._driver.release()
            self._driver = None

    def _follow(self, control: Any) -> None:
        if self._driver is not None and self._driver.stopping:
            control.should_training_stop = True
