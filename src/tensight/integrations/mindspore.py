"""The kit's callbacks in MindSpore's own Model: `model.train(2, data, callbacks=[KitCallback([LossMonitor()])])`."""

from __future__ import annotations

from typing import Any

from tensight.errors import MissingExtra
from tensight.kit.callbacks.callback import CallbackList, Callbacks
from tensight.kit.callbacks.driver import Driver

try:
    import mindspore
except ImportError:
    raise MissingExtra("mindspore", "mindspore", "tensight.integrations.mindspore") from None


class KitCallback(mindspore.Callback):  # type: ignore[misc]
    """Hands what MindSpore's Model does to callbacks of the kit."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = CallbackList(callbacks).callbacks
        self._drivers: dict[str, Driver] = {}

    def on_train_begin(self, run_context: Any) -> None:
        self._begin("train", run_context)

    def on_train_epoch_begin(self, run_context: Any) -> None:
        self._drivers["train"].epoch_begin()

    def on_train_step_begin(self, run_context: Any) -> None:
        self._drivers["train"].step_begin(run_context.original_args().get("train_dataset_element"))

    def on_train_step_end(self, run_context: Any) -> None:
        self._step_end("train", run_context)

    def on_train_epoch_end(self, run_context: Any) -> None:
        driver = self._drivers["train"]
        driver.params.metrics = dict(run_context.original_args().get("metrics") or {})
        driver.epoch_end()
        self._follow(driver, run_context)

    def on_train_end(self, run_context: Any) -> None:
        self._drivers["train"].end()

    def on_eval_begin(self, run_context: Any) -> None:
        self._begin("eval", run_context)

    def on_eval_epoch_begin(self, run_context: Any) -> None:
        self._drivers["eval"].epoch_begin()

    def on_eval_step_begin(self, run_context: Any) -> None:
        self._drivers["eval"].step_begin()

    def on_eval_step_end(self, run_context: Any) -> None:
        self._step_end("eval", run_context)

    def on_eval_epoch_end(self, run_context: Any) -> None:
        self._drivers["eval"].epoch_end()

    def on_eval_end(self, run_context: Any) -> None:
        self._drivers.pop("eval").end()

    def __exit__(self, *error: object) -> None:
        """Called by MindSpore when it lets go of its callbacks, after an error too."""
        for driver in self._drivers.values():
            driver.release()
        self._drivers.clear()

    def _begin(self, mode: str, run_context: Any) -> None:
        known = run_context.original_args()
        driver = self._drivers[mode] = Driver(
            self._callbacks,
            mode,
            network=known.get("network"),
            loss_fn=known.get("loss_fn"),
            optimizer=known.get("optimizer"),
            train_dataset=known.get("train_dataset"),
            epoch_num=known.get("epoch_num") or 1,
            batch_num=known.get("batch_num"),
        )
        driver.begin()
        self._follow(driver, run_context)

    def _step_end(self, mode: str, run_context: Any) -> None:
        driver = self._drivers[mode]
        driver.step_end(run_context.original_args().get("net_outputs"))
        self._follow(driver, run_context)

    def _follow(self, driver: Driver, run_context: Any) -> None:
        if driver.stopping:
            run_context.request_stop()
