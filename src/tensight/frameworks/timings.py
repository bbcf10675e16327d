"""The frameworks that can be profiled, as strings: none is imported before the user's program has imported it."""

from __future__ import annotations

import importlib
from typing import Any

from tensight.frameworks.timing import Timing

# framework's import name → how its profile is taken. One line adds a framework.
TIMINGS = {
    "torch": "tensight.frameworks.torch.timing:TorchTiming",
    "mindspore": "tensight.frameworks.mindspore.timing:MindSporeTiming",
}


def load(name: str, *args: Any, **options: Any) -> Timing:
    """What takes the profile of a framework that the user's program has imported."""
    module, _, attribute = TIMINGS[name].partition(":")
    timing: Timing = getattr(importlib.import_module(module), attribute)(*args, **options)
    return timing
