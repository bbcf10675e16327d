"""Autograd's anomaly mode: every gradient is searched for NaN, every operator keeps its stack."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

TITLE = "`torch.autograd.set_detect_anomaly`"
NEEDS = "torch"
COVERS = "NaN in gradients, by operator; no statistics, no forward values, no weights"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    import torch

    torch.autograd.set_detect_anomaly(True)
    return model, lambda step: nullcontext()
