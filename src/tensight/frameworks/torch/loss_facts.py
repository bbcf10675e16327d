"""What is known of the prediction and target of a loss: the evidence for faults in its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.activations import Made
from tensight.frameworks.torch.graph import made_by
from tensight.records.event import Value

CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss", "multi_margin_loss"})
_MOST_ROWS = 256
_MOST_LABELS = 65_536


def shape_text(tensor: torch.Tensor) -> str:
    """
    >>> shape_text(torch.ones(64, 1)), shape_text(torch.tensor(1.0))
    ('64x1', '')
    """
    return "x".join(str(length) for length in tensor.shape)


def facts(
    function: str, prediction: torch.Tensor, target: torch.Tensor | None, lately: Sequence[Made]
) -> dict[str, Value]:
    """Values of a 'loss' event that follow from its two tensors. Nothing of them is kept."""
    found: dict[str, Value] = {"prediction_shape": shape_text(prediction)}
    with torch.no_grad():
        found |= _prediction(function, prediction.detach())
        found |= _maker(prediction, lately)
        if target is not None:
            found["target_shape"] = shape_text(target)
            found |= _target(target.detach())
    return found


def _prediction(function: str, prediction: torch.Tensor) -> dict[str, Value]:
    stats = statistics.one(prediction)
    found: dict[str, Value] = {"prediction_min": stats.min, "prediction_max": stats.max}
    if prediction.dim() >= 2 and prediction.shape[1] > 1 and prediction.dtype.is_floating_point:
        sums = prediction[:_MOST_ROWS].double().sum(1).flatten()
        if sums.numel():
            low, high = torch.aminmax(sums)
            found["prediction_row_sum_min"], found["prediction_row_sum_max"] = low.item(), high.item()
            if function == "nll_loss":
                low, high = torch.aminmax(prediction[:_MOST_ROWS].double().exp().sum(1))
                found["prediction_exp_sum_min"], found["prediction_exp_sum_max"] = low.item(), high.item()
    if function in CLASS_LOSSES and prediction.dim():
        found["classes"] = prediction.shape[1 if prediction.dim() > 1 else 0]
    return found


def _maker(prediction: torch.Tensor, lately: Sequence[Made]) -> dict[str, Value]:
    """The operator that made the prediction: seen when it was called, or read from the graph."""
    for made in reversed(lately):
        if made.ref() is prediction:
            found: dict[str, Value] = {"prediction_from": made.function, "prediction_module": made.module}
            if made.dim is not None:
                found["prediction_dim"] = made.dim
            if made.source is not None:
                found["prediction_source"] = f"{made.source.file}:{made.source.line}"
            return found
    operator, dim = made_by(prediction)
    found = {"prediction_from": operator}
    if dim is not None:
        found["prediction_dim"] = dim
    return found


def _target(target: torch.Tensor) -> dict[str, Value]:
    stats = statistics.one(target)
    found: dict[str, Value] = {"target_min": stats.min, "target_max": stats.max}
    if stats.std is not None:
        found["target_variance"] = stats.std**2
    if not target.dtype.is_floating_point and not target.is_complex():
        labels = target.reshape(-1)[:_MOST_LABELS]
        if labels.dtype is torch.bool:
            labels = labels.to(torch.uint8)
        kinds, counts = torch.unique(labels, return_counts=True)
        total = labels.numel()
        shares = [count / total for count in counts.tolist()]
        found["target_distinct"] = len(shares)
        found["target_entropy"] = -sum(share * math.log(share) for share in shares) + 0.0
        if shares:
            most = shares.index(max(shares))
            found["target_most"], found["target_most_share"] = int(kinds[most]), shares[most]
    return found


def tokens_against(target: torch.Tensor, fed: Sequence[torch.Tensor]) -> dict[str, Value]:
    """Whether the targets are the tokens that the network was fed: the same, or the next ones.

    >>> text = torch.arange(40).reshape(2, 20) % 7
    >>> tokens_against(text[:, 1:].reshape(-1), [text[:, :-1]])
    {'target_shift': 1}
    """
    if target.is_floating_point() or target.is_complex() or target.dtype is torch.bool:
        return {}
    with torch.no_grad():
        for tokens in fed:
            if tokens.numel() != target.numel() or tokens.dim() != 2 or min(tokens.shape) < 1 or tokens.numel() < 8:
                continue
            wanted = target.detach().reshape(tokens.shape)
            counted = wanted >= 0  # a negative label is left out of the loss
            if int(tokens.min()) == int(tokens.max()):
                continue
            if _agree(wanted, tokens, counted):
                return {"target_shift": 0}
            for dim in (1, 0):
                length = tokens.shape[dim] - 1
                if length >= 3 and _agree(
                    wanted.narrow(dim, 0, length), tokens.narrow(dim, 1, length), counted.narrow(dim, 0, length)
                ):
                    return {"target_shift": 1}
    return {}


def _agree(a: torch.Tensor, b: torch.Tensor, counted: torch.Tensor) -> bool:
    return int(counted.sum()) >= 4 and bool((a == b)[counted].all())
