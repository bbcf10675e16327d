"""Trained tensors that belong to nobody: layers that are made anew in every forward pass."""

from __future__ import annotations

import torch
from torch import nn

from tensight.frameworks.torch.graph import leaves
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

STEPS = frozenset({1, 2, 3, 4})  # that are looked at: the first may build what it needs
_MOST_LEAVES = 2_000


class Strangers:
    """Looks through the graphs of a few losses for parameters that no network and no optimizer knows."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self._step = -1

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        step = self.watching.sink.step
        if step not in STEPS or step == self._step or not self.watching.gradients or root.grad_fn is None:
            return
        self._step = step
        networks = self.networks
        found = [
            leaf
            for leaf in leaves(root)[:_MOST_LEAVES]
            if isinstance(leaf, nn.Parameter) and leaf not in networks.parameters and leaf not in networks.optimizer_of
        ]
        if not found:
            return
        ids = {id(leaf) for leaf in found}
        for module in networks.created.all():
            own = [value for value in module._parameters.values() if value is not None and id(value) in ids]
            if own:
                values: dict[str, Value] = {
                    "type": type(module).__name__,
                    "parameters": len(own),
                    "size": sum(value.numel() for value in own),
                    "total": len(found),
                }
                self.watching.sink.event("stranger", self.watching.network, values, networks.created.source(module))
                return
