"""Trained tensors that belong to nobody: layers that are made anew in every forward pass."""

from __future__ import annotations

import torch
from torch import nn

from tensight.frameworks.source import source_of
from tensight.frameworks.torch.graph import leaves
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

STEPS = frozenset({1, 2, 3, 4})  # that are looked at: the first may build what it needs
_MOST_LEAVES = 2_000
_EMPTY = frozenset(  # layers without parameters, which may well be made where they are used
    kind
    for place in ("activation", "dropout", "pooling", "loss", "flatten", "padding", "upsampling", "pixelshuffle")
    for kind in vars(getattr(nn.modules, place)).values()
    if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__.endswith(place)
) - {nn.PReLU, nn.MultiheadAttention}


class Strangers:
    """Looks through the graphs of a few losses for parameters that no network and no optimizer knows."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self._step = -1

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        step = self.watching.sink.step
        made = list(self.networks.created.inside)  # in the forward passes of this step
        self.networks.created.inside.clear()
        if not made:
            return
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
        holder = next((one for one in made if one[0] not in _EMPTY), None)
        if holder is None:
            return
        kind, site = holder
        values: dict[str, Value] = {
            "type": kind.__name__,
            "parameters": len(found),
            "size": sum(value.numel() for value in found),
        }
        source = None if site is None else source_of(*site)
        self.watching.sink.event("stranger", self.watching.network, values, source)
