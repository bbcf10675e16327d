"""`Model`: network, loss, optimizer and metrics, trained and evaluated with callbacks; the same on both frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Callbacks, Params
from tensight.kit.callbacks.driver import Driver
from tensight.kit.loss_scale import LossScale
from tensight.kit.metrics import Loss, Metric, metrics_of

Metrics = Mapping[str, Metric] | Iterable[str] | None


class Model:
    """A network with what it takes to train it.

    A batch is a tuple: what the network is called with, then the label for `loss_fn(output, label)`. Without `loss_fn`
    the network answers the loss itself. `metrics` is a dictionary of metrics or a set of their names. `callbacks` are
    used by `train` and `eval` beside those given there. `loss_scale_manager` multiplies the loss, as mixed precision
    needs it.
    """

    def __init__(
        self,
        network: Any,
        loss_fn: Any = None,
        optimizer: Any = None,
        metrics: Metrics = None,
        *,
        eval_network: Any = None,
        loss_scale_manager: LossScale | None = None,
        callbacks: Callbacks = None,
    ) -> None:
        self.network = network
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.metrics = metrics_of(metrics)
        self.loss_scale = loss_scale_manager
        self._own = _list(callbacks)
        self._backend = backend_of(network)
        self._trainer = self._backend.trainer(network, loss_fn, optimizer)
        self._evaluator = self._trainer
        if eval_network is not None:
            self._evaluator = self._backend.trainer(eval_network, loss_fn, None)

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Callbacks = None,
        dataset_sink_mode: bool = False,
        initial_epoch: int = 0,
    ) -> None:
        """Train for `epoch` epochs. `dataset_sink_mode` is accepted and changes nothing: every step is a call."""
        self._fit(epoch, train_dataset, None, 1, callbacks, None, initial_epoch)

    def fit(
        self,
        epoch: int,
        train_dataset: Any,
        valid_dataset: Any = None,
        valid_frequency: int = 1,
        callbacks: Callbacks = None,
        valid_callbacks: Callbacks = None,
        initial_epoch: int = 0,
    ) -> None:
        """Train, and evaluate after every `valid_frequency` epochs; callbacks find the result in `metrics`."""
        self._fit(epoch, train_dataset, valid_dataset, valid_frequency, callbacks, valid_callbacks, initial_epoch)

    def eval(self, valid_dataset: Any, callbacks: Callbacks = None, dataset_sink_mode: bool = False) -> dict[str, Any]:
        """The metrics over a data set, by name; over the data of all ranks when there is a process group."""
        if not self.metrics:
            raise UsageError("Model.eval: there are no metrics; give Model(…, metrics={'accuracy'})")
        return self._eval(valid_dataset, [*self._own, *_list(callbacks)])

    def predict(self, *inputs: Any) -> Any:
        """What the network answers, in evaluation mode and without gradients."""
        with self._evaluator.evaluating():
            return self._evaluator.predict(*inputs)

    def _fit(
        self,
        epochs: int,
        dataset: Any,
        valid: Any,
        frequency: int,
        callbacks: Callbacks,
        valid_callbacks: Callbacks,
        initial: int,
    ) -> None:
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            raise UsageError(f"Model.train: {epochs!r} epochs cannot be trained; give a whole number from 1 on")
        if self.optimizer is None:
            raise UsageError("Model.train: there is no optimizer; give Model(…, optimizer=…)")
        driver = Driver(
            [*self._own, *_list(callbacks)],
            network=self.network,
            loss_fn=self.loss_fn,
            optimizer=self.optimizer,
            train_dataset=dataset,
            epoch_num=epochs,
            batch_num=self._backend.batch_count(dataset),
            cur_epoch_num=initial,
            loss_scale=None if self.loss_scale is None else self.loss_scale.scale,
        )
        driver.params.cur_step_num = initial * (driver.params.batch_num or 0)
        self._trainer.training()
        try:
            driver.begin()
            while driver.params.cur_epoch_num < epochs and not driver.stopping:
                driver.epoch_begin()
                self._epoch(driver, dataset)
                if valid is not None and driver.params.cur_epoch_num % frequency == 0:
                    driver.params.metrics = self._eval(valid, _list(valid_callbacks))
                driver.epoch_end()
            driver.end()
        finally:
            driver.release()

    def _epoch(self, driver: Driver, dataset: Any) -> None:
        for batch in self._backend.batches(dataset):
            driver.step_begin(batch)
            driver.step_end(self._step(driver.params, batch))
            if driver.stopping:
                return

    def _step(self, params: Params, batch: Any) -> float:
        scale = self.loss_scale
        params.loss_scale = None if scale is None else scale.scale
        loss, overflow = self._trainer.step(batch, scale)
        if scale is not None:
            params.overflow, params.loss_scale_advice = overflow, scale.advice()
        return loss

    def _eval(self, dataset: Any, callbacks: Any) -> dict[str, Any]:
        driver = Driver(
            callbacks,
            "eval",
            network=self.network,
            loss_fn=self.loss_fn,
            optimizer=self.optimizer,
            valid_dataset=dataset,
            batch_num=self._backend.batch_count(dataset),
        )
        for metric in self.metrics.values():
            metric.clear()
        with self._evaluator.evaluating():
            driver.begin()
            driver.epoch_begin()
            for batch in self._backend.batches(dataset):
                driver.step_begin(batch)
                loss, outputs, label = self._evaluator.evaluate(batch)
                for metric in self.metrics.values():
                    self._feed(metric, loss, outputs, label)
                driver.step_end(outputs)
                if driver.stopping:
                    break
            driver.params.metrics = result = self._results()
            driver.epoch_end()
            driver.end()
        return result

    def _feed(self, metric: Metric, loss: float | None, outputs: Any, label: Any) -> None:
        if isinstance(metric, Loss):
            if loss is None:
                raise UsageError("Model.eval: the metric 'loss' needs a loss function; give Model(…, loss_fn=…)")
            metric.update(loss)
        else:
            metric.update(outputs, label)

    def _results(self) -> dict[str, Any]:
        """Of all ranks together: each state is merged into a copy, so that what was gathered here stays as it is."""
        results = {}
        for name, metric in self.metrics.items():
            states = self._backend.gather(metric.state()) if getattr(metric, "mergeable", False) else []
            results[name] = metric.merged(states).eval() if len(states) > 1 else metric.eval()
        return results


def _list(callbacks: Callbacks) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
