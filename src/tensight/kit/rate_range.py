"""Learning-rate range test: one short training with a rising rate, and what it suggests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import backend_of
from tensight.kit.schedules import draw


@dataclass(frozen=True)
class RangeTest:
    """Rates, losses (smoothed), and a suggestion: None when the loss never falls, or only at rates that were not tried.

    It is where the loss falls fastest, but at most a tenth of the rate with the lowest loss.
    """

    rates: list[float]
    losses: list[float]
    suggestion: float | None

    def __str__(self) -> str:
        picture = draw(self.losses, len(self.losses)) if self.losses else ""
        words = "no rate is suggested: the loss never fell clearly"
        if self.suggestion:
            words = f"suggested learning rate: {self.suggestion:.2g}"
        return f"{picture}\nloss while the rate rises from {self.rates[0]:.2g} to {self.rates[-1]:.2g}; {words}"


def range_test(
    network: Any,
    loss_fn: Any,
    optimizer: Any,
    dataset: Any,
    low: float = 1e-7,
    high: float = 1.0,
    steps: int = 100,
) -> RangeTest:
    """Train with a rate that rises from `low` to `high`; network and optimizer are put back as they were.

    Ends early when the loss has grown to four times its best.
    """
    if not 0 < low < high or steps < 2:
        raise UsageError(f"range_test: rates from {low} to {high} in {steps} steps make no range")
    backend = backend_of(network)
    trainer = backend.trainer(network, loss_fn, optimizer)
    restore = backend.remember(network, optimizer)
    rates: list[float] = []
    losses: list[float] = []
    smooth = 0.0
    try:
        trainer.training()
        step = 0
        while step < steps:
            had = step
            for batch in backend.batches(dataset):
                rate = low * (high / low) ** (step / (steps - 1))
                backend.set_rate(optimizer, rate)
                loss, _ = trainer.step(batch)
                smooth = loss if not losses else 0.7 * smooth + 0.3 * loss
                step += 1
                if not math.isfinite(loss) or (losses and smooth > 4 * min(losses)):
                    step = steps
                    break
                rates.append(rate)
                losses.append(smooth)
                if step >= steps:
                    break
            if step == had:
                raise UsageError("range_test: the data set is empty")
    finally:
        restore()
    return RangeTest(rates, losses, _suggestion(rates, losses))


def _suggestion(rates: list[float], losses: list[float]) -> float | None:
    """
    >>> _suggestion([1e-4, 1e-3, 1e-2, 1e-1], [1.0, 0.5, 0.4, 0.6])
    0.001
    >>> _suggestion([1e-4, 1e-3], [1.0, 1.1]) is None
    True
    >>> _suggestion([1e-4, 2e-4, 4e-4], [1.0, 0.9, 1.1]) is None  # a tenth of 2e-4 was never tried
    True
    """
    falls = [(losses[i + 1] - losses[i], rates[i + 1]) for i in range(len(losses) - 1)]
    slope, rate = min(falls, default=(0.0, 0.0))
    if slope >= 0:
        return None
    found = min(rate, rates[losses.index(min(losses))] / 10)
    return found if found >= rates[0] else None  # where hardly a weight moves the batches alone make the loss fall
