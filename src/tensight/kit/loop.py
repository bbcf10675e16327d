"""The callbacks in a loop that the user writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from tensight.errors import UsageError
from tensight.kit.callbacks.callback import Callbacks, Params
from tensight.kit.callbacks.driver import Driver

Batch = TypeVar("Batch")


class Loop(Generic[Batch]):
    """Callbacks in a plain loop: epochs and batches are gone through here, `loop.loss` is told what came out.

    >>> from tensight.kit import LossMonitor
    >>> with Loop([1.0, 0.5], LossMonitor(), epochs=1) as loop:
    ...     for epoch in loop.epochs():
    ...         for batch in loop.steps():
    ...             loop.loss = batch
    epoch: 1 step: 1, loss is 1.0
    epoch: 1 step: 2, loss is 0.5
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        callbacks: Callbacks = None,
        *,
        epochs: int = 1,
        network: Any = None,
        loss_fn: Any = None,
        optimizer: Any = None,
        batch_num: int | None = None,
        **known: Any,
    ) -> None:
        if batch_num is None:
            try:
                batch_num = len(batches)  # type: ignore[arg-type]
            except TypeError:
                pass
        self._batches = batches
        self._epochs = epochs
        self.loss: Any = None  # set by the user's loop in every step
        self.driver = Driver(
            callbacks,
            network=network,
            loss_fn=loss_fn,
            optimizer=optimizer,
            train_dataset=batches,
            epoch_num=epochs,
            batch_num=batch_num,
            **known,
        )

    @property
    def params(self) -> Params:
        """What callbacks are told."""
        return self.driver.params

    def __enter__(self) -> Loop[Batch]:
        self.driver.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.driver.epoch_end()  # after a `break` out of the epochs
                self.driver.end()
        finally:
            self.driver.release()

    def epochs(self) -> Iterator[int]:
        """The epochs, counted from 1; ends early when a callback asks for it."""
        for _ in range(self._epochs):
            if self.driver.stopping:
                return
            self.driver.epoch_begin()
            yield int(self.params.cur_epoch_num)
            self.driver.epoch_end()

    def steps(self) -> Iterator[Batch]:
        """The batches of an epoch; ends early when a callback asks for it."""
        if not self.params.cur_epoch_num:
            raise UsageError("Loop.steps: no epoch has begun; go through loop.epochs() around it")
        for batch in self._batches:
            self.loss = None
            self.driver.step_begin(batch)
            yield batch
            self.driver.step_end(self.loss)
            if self.driver.stopping:
                return
