"""The kit's callbacks in Lightning: `Trainer(callbacks=[KitCallback([LossMonitor(), …])])`."""

from __future__ import annotations

from typing import Any

from tensight.errors import MissingExtra
from tensight.kit.callbacks.callback import CallbackList, Callbacks
from tensight.kit.callbacks.driver import Driver

try:
    from lightning.pytorch.callbacks import Callback as LightningCallback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback as LightningCallback
    except ImportError:
        raise MissingExtra("lightning", "trainers", "tensight.integrations.lightning") from None


class KitCallback(LightningCallback):  # type: ignore[misc]
    """Hands what Lightning's trainer does to callbacks of the kit. A step is a batch; `loss_fn` is not known here."""

    def __init__(self, callbacks: Callbacks, loss_fn: Any = None) -> None:
        super().__init__()
        self._callbacks = CallbackList(callbacks).callbacks
        self._loss_fn = loss_fn
        self._driver: Driver | None = None
        self._evaluation: Driver | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        count = trainer.num_training_batches
        self._driver = Driver(
            self._callbacks,
            network=pl_module,
            loss_fn=self._loss_fn,
            optimizer=trainer.optimizers[0] if trainer.optimizers else None,
            train_dataset=trainer.train_dataloader,
            epoch_num=trainer.max_epochs or 1,
            batch_num=int(count) if isinstance(count, int) or float(count).is_integer() else None,
        )
        self._driver.begin()
        self._follow(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._driver is not None:
            self._driver.epoch_begin()
            self._follow(trainer)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._driver is not None:
            self._driver.step_begin(batch)
            self._follow(trainer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._driver is not None:
            self._driver.step_end(outputs.get("loss") if isinstance(outputs, dict) else outputs)
            self._follow(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._driver is not None:
            self._driver.params.metrics = {
                name: float(value) for name, value in trainer.callback_metrics.items() if hasattr(value, "__float__")
            }
            self._driver.epoch_end()
            self._follow(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self._driver is not None:
            self._driver.end()
            self._release()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._release()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        counts = trainer.num_val_batches
        self._evaluation = Driver(
            self._callbacks,
            "eval",
            network=pl_module,
            loss_fn=self._loss_fn,
            batch_num=int(sum(counts)) if isinstance(counts, list) else None,
        )
        self._evaluation.begin()
        self._evaluation.epoch_begin()

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any) -> None:
        if self._evaluation is not None:
            self._evaluation.step_begin(batch)

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        if self._evaluation is not None:
            self._evaluation.step_end(outputs)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._evaluation is not None:
            self._evaluation.epoch_end()
            self._evaluation.end()
            self._evaluation = None

    def _release(self) -> None:
        if self._driver is not None:
            self._driver.release()
            self._driver = None

    def _follow(self, trainer: Any) -> None:
        if self._driver is not None and self._driver.stopping:
            trainer.should_stop = True
