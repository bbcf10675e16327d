"""Tensight: the debugger for neural-network training.

`import tensight` is quick and imports no framework: names are looked up when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tensight.compare import compare
    from tensight.compare.batches import batch
    from tensight.compare.inference import Pipeline, compare_inference
    from tensight.compare.seeding import seed_all
    from tensight.kit.blocking import launch_blocking
    from tensight.kit.hooks import on_backward, on_forward, on_forward_pre, on_gradient, on_parameter, on_saved
    from tensight.kit.printing import print
    from tensight.runs import Run
    from tensight.runs import open_run as open
    from tensight.session.dumping import dump
    from tensight.session.reference import reference
    from tensight.session.watching import watch

# public name → where it lives
_PUBLIC = {
    "dump": "tensight.session.dumping:dump",
    "open": "tensight.runs:open_run",
    "Run": "tensight.runs:Run",
    "compare": "tensight.compare:compare",
    "batch": "tensight.compare.batches:batch",
    "Pipeline": "tensight.compare.inference:Pipeline",
    "compare_inference": "tensight.compare.inference:compare_inference",
    "reference": "tensight.session.reference:reference",
    "launch_blocking": "tensight.kit.blocking:launch_blocking",
    "on_backward": "tensight.kit.hooks:on_backward",
    "on_forward": "tensight.kit.hooks:on_forward",
    "on_forward_pre": "tensight.kit.hooks:on_forward_pre",
    "on_gradient": "tensight.kit.hooks:on_gradient",
    "on_parameter": "tensight.kit.hooks:on_parameter",
    "on_saved": "tensight.kit.hooks:on_saved",
    "print": "tensight.kit.printing:print",
    "seed_all": "tensight.compare.seeding:seed_all",
    "watch": "tensight.session.watching:watch",
}

_PACKAGES = ("integrations", "kit")  # that are used by their full names: tensight.kit.get_logger()

__all__ = [
    "Pipeline",
    "Run",
    "__version__",
    "batch",
    "compare",
    "compare_inference",
    "dump",
    "launch_blocking",
    "on_backward",
    "on_forward",
    "on_forward_pre",
    "on_gradient",
    "on_parameter",
    "on_saved",
    "open",
    "print",
    "reference",
    "seed_all",
    "watch",
]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].partition(":")
        value: object = getattr(importlib.import_module(module), attribute)
        return value
    if name in _PACKAGES:
        return importlib.import_module(f"tensight.{name}")
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
