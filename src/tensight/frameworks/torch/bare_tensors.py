"""Trained tensors of a loop that has neither a module nor an optimizer: what its losses accumulate gradients in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import variable_name
from tensight.frameworks.torch.graph import leaves
from tensight.frameworks.torch.networks import Held
from tensight.frameworks.torch.shards import PLAIN

Pairs = list[tuple[Held, torch.Tensor]]


class BareTensors:
    """Looks for them at each backward pass, as long as nothing else is trained."""

    def __init__(self, nothing_else: Callable[[], bool], updated: Callable[[], object], patches: Patches) -> None:
        self._nothing_else = nothing_else
        self._updated = updated
        self._patches = patches
        self._patched = False
        self._held: IdentityMap[torch.Tensor, Held] = IdentityMap()

    def look(self, root: torch.Tensor) -> None:
        """A backward pass begins."""
        if root.grad_fn is None or not self._nothing_else():
            return
        found = [tensor for tensor in leaves(root) if type(tensor) in PLAIN and tensor.requires_grad]
        if found and all(tensor in self._held for tensor in found):
            return
        if found and not self._patched:
            self._patched = True
            # without a module nobody tells where the next iteration begins; an update by hand ends a block of no_grad
            self._patches.wrap(torch.no_grad, "__exit__", self._around_exit)
        for index, tensor in enumerate(found):
            if tensor not in self._held:
                self._held[tensor] = Held(tensor, "", "", variable_name(tensor) or f"tensor.{index}", None)

    def _around_exit(self, original: Any) -> Any:
        updated = self._updated

        def __exit__(block, *args):
            result = original(block, *args)
            updated()
            return result

        return __exit__

    def with_gradients(self) -> Pairs:
        if not self._held or not self._nothing_else():
            return []
        pairs = [(held, tensor) for held in list(self._held.values.values()) if (tensor := held.ref()) is not None]
        return [(held, tensor) for held, tensor in pairs if tensor.grad is not None]
