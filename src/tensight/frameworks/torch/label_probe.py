"""Samples and labels of the first steps for the question whether they belong together (see `relation`)."""

from __future__ import annotations

import torch

from tensight.frameworks.relation import MOST_AT_ONCE, Gathered
from tensight.frameworks.torch.watching import Watching, to_numpy


class LabelProbe:
    """Gathers samples from calls of a classification loss until there are enough, then tells and is done."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._gathered = Gathered()
        self._of_tokens = Gathered(of_tokens=True)

    def look(self, inputs: list[torch.Tensor], target: torch.Tensor | None) -> None:
        if (
            self._gathered.done
            or self._of_tokens.done
            or target is None
            or target.is_complex()
            or not 1 <= target.dim() <= 2
        ):
            return
        if target.dim() == 2:
            if target.shape[1] != 1 or not target.is_floating_point():
                return
            target = target[:, 0]
        fed = next((tensor for tensor in inputs if tensor.shape[:1] == target.shape), None)
        if fed is None or fed.is_complex() or fed.dim() < 2 or fed.device.type != "cpu":
            return
        tokens = not fed.is_floating_point()
        if tokens and (fed.dim() != 2 or fed.dtype is torch.bool):
            return
        gathered = self._of_tokens if tokens else self._gathered
        values, labels = fed.detach()[:MOST_AT_ONCE], target[:MOST_AT_ONCE]
        found = gathered.add(to_numpy(values, copy=False), to_numpy(labels, copy=False))
        if found is not None:
            self.watching.sink.scalar(f"probe/{'token' if tokens else 'label'}_information", found)
