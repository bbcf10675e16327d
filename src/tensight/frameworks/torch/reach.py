"""Whether the targets of a regression lie where its last activation can get to."""

from __future__ import annotations

import math

import torch

from tensight.records.event import Value

RANGES: dict[str, tuple[float, float]] = {
    "tanh": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "relu": (0.0, math.inf),
}
_REGRESSIONS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_MOST = 1 << 20  # values


def out_of_reach(function: str, activation: Value, target: torch.Tensor) -> dict[str, Value]:
    """The share of targets beyond what the activation can give, and the mean loss that they leave in the best case.

    >>> out_of_reach("mse_loss", "tanh", torch.tensor([0.5, -0.5, 3.0, 0.0]))
    {'target_beyond': 0.25, 'target_floor': 1.0}
    >>> out_of_reach("mse_loss", "tanh", torch.tensor([0.5, 1.0])), out_of_reach("mse_loss", "", torch.tensor([5.0]))
    ({}, {})
    """
    limits = RANGES.get(activation) if isinstance(activation, str) else None
    if limits is None or function not in _REGRESSIONS or not target.dtype.is_floating_point:
        return {}
    if not target.is_cpu or not 0 < target.numel() <= _MOST:
        return {}
    with torch.no_grad():
        over = (target.detach().double() - target.detach().double().clamp(*limits)).abs()
        share = float((over > 0).double().mean())
        if not share or not math.isfinite(share):
            return {}
        if function == "mse_loss":
            left = over.square()
        elif function == "l1_loss":
            left = over
        else:  # squares near 0, as they are by default up to 1
            left = torch.where(over < 1, over.square() / 2, over - 0.5)
        return {"target_beyond": share, "target_floor": float(left.mean())}
