"""Single steps of a MindSpore network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, amp, nn

from tensight.frameworks.mindspore.values import copied


def batches(dataset: Any) -> Iterator[Any]:
    """Tuples of tensors, of a MindSpore data set or anything that can be gone through."""
    if hasattr(dataset, "create_tuple_iterator"):
        yield from dataset.create_tuple_iterator(num_epochs=1)
        return
    for batch in dataset:
        items = batch if isinstance(batch, (tuple, list)) else (batch,)
        yield tuple(Tensor(item) if isinstance(item, np.ndarray) else item for item in items)


class MindSporeTrainer:
    """See `tensight.kit.backend.Trainer`."""

    def __init__(self, network: nn.Cell, loss_fn: Any, optimizer: Any) -> None:
        self.network = network
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self._scaler: amp.StaticLossScaler | None = None
        if optimizer is not None:
            self._gradient = mindspore.value_and_grad(self._loss, None, optimizer.parameters, has_aux=True)

    def step(self, batch: Any, scale: Any = None) -> tuple[float, bool]:
        if scale is None:
            self._scaler = None
        elif self._scaler is None or float(self._scaler.scale_value.asnumpy()) != scale.scale:
            self._scaler = amp.StaticLossScaler(scale.scale)
        (_, loss), gradients = self._gradient(*_items(batch))
        if scale is None or self._scaler is None:
            self.optimizer(gradients)
            return float(copied(loss)), False
        overflow = not all(np.isfinite(copied(one)).all() for one in gradients)
        if not (overflow and scale.drop_overflow_update):
            self.optimizer(self._scaler.unscale(gradients))
        # MindSpore's own scaler, which a session watches; when to raise and lower is for `scale` to say
        self._scaler.scale_value.set_data(Tensor(scale.update(overflow), mindspore.float32))
        self._scaler.adjust(Tensor(not overflow))
        return float(copied(loss)), overflow

    def evaluate(self, batch: Any) -> tuple[float | None, Any, Any]:
        items = _items(batch)
        if self.loss_fn is None:
            outputs = self.network(*items)
            first = outputs[0] if isinstance(outputs, tuple) else outputs
            return (float(copied(first)) if first.size == 1 else None), outputs, None
        outputs = self.network(*items[:-1])
        return float(copied(self.loss_fn(outputs, items[-1]))), outputs, items[-1]

    def predict(self, *inputs: Any) -> Any:
        return self.network(*inputs)

    def training(self) -> None:
        self.network.set_train(True)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        modes = [(cell, cell.training) for _, cell in self.network.cells_and_names()]
        self.network.set_train(False)
        try:
            yield
        finally:
            for cell, mode in modes:
                cell.training = mode

    def _loss(self, *items: Any) -> Any:
        """The loss as the gradient is taken of it, and as it is."""
        if self.loss_fn is None:
            outputs = self.network(*items)
            loss = outputs[0] if isinstance(outputs, tuple) else outputs
        else:
            loss = self.loss_fn(self.network(*items[:-1]), items[-1])
        return (loss if self._scaler is None else self._scaler.scale(loss)), loss


def _items(batch: Any) -> tuple[Any, ...]:
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
