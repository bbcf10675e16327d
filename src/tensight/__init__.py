"""Tensight: the debugger for neural-network training.

`import tensight` is quick and imports no framework: names are looked up when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tensight.compare import compare
    from tensight.compare.seeding import seed_all
    from tensight.runs import Run
    from tensight.runs import open_run as open
    from tensight.session.watching import watch

# public name → where it lives
_PUBLIC = {
    "open": "tensight.runs:open_run",
    "Run": "tensight.runs:Run",
    "compare": "tensight.compare:compare",
    "seed_all": "tensight.compare.seeding:seed_all",
    "watch": "tensight.session.watching:watch",
}

__all__ = ["Run", "__version__", "compare", "open", "seed_all", "watch"]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].partition(":")
        value: object = getattr(importlib.import_module(module), attribute)
        return value
    if name[:1].isupper():
        # conditions by their class names: tensight.TensorOverflow()
        catalogue = importlib.import_module("tensight.watchpoints.catalogue")
        for condition in catalogue.CONDITIONS.values():
            if condition.__name__ == name:
                found: object = condition
                return found
    raise AttributeError(f"module 'tensight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
