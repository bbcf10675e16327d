"""The frameworks Tensight knows, as strings: none is imported before the user's program has imported it."""

from __future__ import annotations

import importlib
import sys

from tensight.frameworks.adapter import Adapter

# framework's import name → where its adapter is. One line adds a framework.
ADAPTERS = {
    "torch": "tensight.frameworks.torch.adapter:TorchAdapter",
    "mindspore": "tensight.frameworks.mindspore.adapter:MindSporeAdapter",
}


def load(name: str) -> Adapter:
    """The adapter of a framework that the user's program has imported."""
    module, _, attribute = ADAPTERS[name].partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), attribute)()
    return adapter


def imported() -> list[str]:
    """Names of known frameworks that are imported in this process."""
    return [name for name in ADAPTERS if name in sys.modules]
