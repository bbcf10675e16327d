"""The kit's callbacks inside other people's trainers: Lightning, Transformers, Accelerate, MindSpore's Model.

Each module imports its trainer, and is imported itself when it is first named: `tensight.integrations.lightning`.
"""

from __future__ import annotations

import importlib

_MODULES = ("accelerate", "lightning", "mindspore", "transformers")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
