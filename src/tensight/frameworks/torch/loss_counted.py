"""Which targets count in a loss of which the program makes a mean of its own: read from the gradient of each."""

from __future__ import annotations

import torch

from tensight.frameworks.torch.watching import Watching
from tensight.records import Source
from tensight.records.event import Value

STEPS = 6
_FEWEST = 8  # targets


class Counted:
    """Looks at what comes back to each term of a loss with reduction='none', in the first steps."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._told = watching.probe("terms of a loss", self._tell)

    def look(self, function: str, result: torch.Tensor, target: torch.Tensor | None, source: Source | None) -> None:
        """A loss function has given a value for each target."""
        if target is None or self.watching.sink.step >= STEPS or result.shape != target.shape:
            return
        if target.is_floating_point() or target.is_complex() or target.numel() < _FEWEST or not result.requires_grad:
            return
        labels, told = target.detach().clone(), self._told

        def gradient(weights: torch.Tensor) -> None:
            told(function, weights, labels, source)

        result.register_hook(gradient)

    def _tell(self, function: str, weights: torch.Tensor, labels: torch.Tensor, source: Source | None) -> None:
        with torch.no_grad():
            counts = weights.detach() != 0
            used, left = torch.unique(labels[counts]), torch.unique(labels[~counts])
        values: dict[str, Value] = {"counted": int(counts.sum()), "of": labels.numel()}
        values |= {"kinds_counted": used.numel(), "kinds_left_out": left.numel()}
        if used.numel() == 1:
            values["only"] = int(used[0])
        self.watching.sink.event("terms_counted", function, values, source)
