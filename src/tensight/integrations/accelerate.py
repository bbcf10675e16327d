"""The kit's callbacks in a loop with Accelerate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensight.errors import MissingExtra
from tensight.kit.callbacks.callback import Callbacks
from tensight.kit.loop import Loop

try:
    from accelerate import Accelerator
except ImportError:
    raise MissingExtra("accelerate", "trainers", "tensight.integrations.accelerate") from None


class AcceleratedLoop(Loop[Any]):
    """A `Loop` whose steps are updates of the weights, however many batches are accumulated for one.

    Callbacks see the network and optimizer without Accelerate's wrappers. When one rank asks for the end, all end.

        loop = AcceleratedLoop(accelerator, loader, callbacks, epochs=2, network=model, optimizer=optimizer)
        with loop:
            for epoch in loop.epochs():
                for x, y in loop.steps():
                    with accelerator.accumulate(model):
                        loss = loss_fn(model(x), y)
                        accelerator.backward(loss)
                        optimizer.step(); optimizer.zero_grad()
                    loop.loss = loss
    """

    def __init__(
        self,
        accelerator: Accelerator,
        batches: Any,
        callbacks: Callbacks = None,
        *,
        epochs: int = 1,
        network: Any = None,
        loss_fn: Any = None,
        optimizer: Any = None,
    ) -> None:
        self._accelerator = accelerator
        every = int(accelerator.gradient_accumulation_steps)
        super().__init__(
            batches,
            callbacks,
            epochs=epochs,
            network=None if network is None else accelerator.unwrap_model(network),
            loss_fn=loss_fn,
            optimizer=getattr(optimizer, "optimizer", optimizer),
            batch_num=max(1, -(-len(batches) // every)) if hasattr(batches, "__len__") else None,
        )
        self._losses: list[Any] = []

    def steps(self) -> Iterator[Any]:
        """The batches of an epoch. A step begins with its first batch and ends when gradients were applied."""
        begun = False
        for batch in self._batches:
            if not begun:
                self.driver.step_begin(batch)
                begun = True
                self._losses.clear()
            self.loss = None
            yield batch
            self._losses.append(self.loss)
            if self._accelerator.sync_gradients:
                self.driver.step_end(_mean(self._losses))
                begun = False
                if self._stops():
                    return
        if begun:
            self.driver.step_end(_mean(self._losses))

    def _stops(self) -> bool:
        """Whether any rank asks for the end; then all do."""
        if self._accelerator.num_processes > 1:
            if self.driver.stopping:
                self._accelerator.set_trigger()
            if self._accelerator.check_trigger():
                self.driver.context.request_stop()
        return self.driver.stopping


def _mean(losses: list[Any]) -> Any:
    known = [loss for loss in losses if loss is not None]
    return sum(known[1:], known[0]) / len(known) if known else None
