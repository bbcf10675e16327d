"""DebugUnderflowOverflow of transformers: forward hooks on every module."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

TITLE = "transformers `DebugUnderflowOverflow`"
NEEDS = "transformers"
COVERS = "smallest and largest absolute value of module inputs, outputs and weights, NaN and Inf in them; no gradients"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from transformers.debug_utils import DebugUnderflowOverflow

    kept = DebugUnderflowOverflow(model)
    return model, lambda step: nullcontext(kept)
