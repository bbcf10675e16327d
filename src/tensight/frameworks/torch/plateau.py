"""What a scheduler that waits for a plateau was told, and where that number stood when it cut the rate."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tensight.records.event import Value


@dataclass(slots=True)
class Told:
    """The numbers that one scheduler was given.

    >>> told = Told()
    >>> for step, (metric, rate) in enumerate([(9.0, 1.0), (7.0, 1.0), (6.0, 0.1), (5.0, 0.01)]):
    ...     cut = told.reading(step, metric, rate)
    >>> cut, told.settings()["cuts_at_lowest"], told.settings()["metric_at_cut"]
    (True, 2, 6.0)
    """

    readings: int = 0
    first: float = 0.0
    last: float = 0.0
    lowest: float = 0.0
    rate: float = 0.0
    cuts: int = 0
    at_lowest: int = 0  # cuts when the number was lower than ever
    cut_step: int = -1  # the first
    cut_metric: float = 0.0
    last_cut: int = -1

    def reading(self, step: int, metric: float, rate: float) -> bool:
        """One more number, and the rate after it; answers whether that was cut."""
        if not self.readings:
            self.first = self.lowest = metric
            self.rate = rate
        lower, cut = metric < self.lowest, rate < self.rate
        self.readings += 1
        self.last, self.rate = metric, rate
        self.lowest = min(self.lowest, metric)
        if cut:
            self.cuts += 1
            self.at_lowest += lower
            self.last_cut = step
            if self.cuts == 1:
                self.cut_step, self.cut_metric = step, metric
        return cut

    def settings(self) -> dict[str, Value]:
        """What a rule may ask."""
        found: dict[str, Value] = {"readings": self.readings, "cuts": self.cuts, "cuts_at_lowest": self.at_lowest}
        found |= {"first_metric": self.first, "last_metric": self.last, "metric_at_cut": self.cut_metric}
        return found | {"first_cut": self.cut_step, "last_cut": self.last_cut}


def plain(metric: object) -> float | None:
    """A metric as a number; None where to read it would have to wait for a device."""
    if isinstance(metric, (int, float)):
        return float(metric)
    if (
        isinstance(metric, torch.Tensor)
        and type(metric) is torch.Tensor
        and metric.numel() == 1
        and metric.device.type == "cpu"
    ):
        return float(metric.detach())
    return None
