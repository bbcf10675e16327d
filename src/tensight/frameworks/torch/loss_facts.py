"""What is known of the prediction and target of a loss: the evidence for faults in its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from tensight.frameworks.adapter import Array
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.activations import Made
from tensight.frameworks.torch.graph import made_by
from tensight.frameworks.torch.reach import out_of_reach
from tensight.frameworks.torch.watching import to_numpy
from tensight.records.event import Value

CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss", "multi_margin_loss"})
BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_MOST_ROWS = 256
_AT_ONCE = 65_536  # values that are copied as doubles
_FEWEST_SAMPLES = 8  # of a batch, before one may say that they are alike
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
            found |= out_of_reach(function, found["prediction_from"], target)
    return found


def _prediction(function: str, prediction: torch.Tensor) -> dict[str, Value]:
    stats = statistics.one(prediction)
    found: dict[str, Value] = {"prediction_min": stats.min, "prediction_max": stats.max}
    if prediction.dim() >= 2 and prediction.shape[1] > 1 and prediction.dtype.is_floating_point:
        some = prediction[:_MOST_ROWS]
        if some.numel():
            low, high = _row_sums(some, lambda rows: rows)
            found["prediction_row_sum_min"], found["prediction_row_sum_max"] = low, high
            if function == "nll_loss":
                low, high = _row_sums(some, np.exp)
                found["prediction_exp_sum_min"], found["prediction_exp_sum_max"] = low, high
    if function in CLASS_LOSSES and prediction.dim():
        found["classes"] = prediction.shape[1 if prediction.dim() > 1 else 0]
    return found


def _row_sums(rows: torch.Tensor, of: Callable[[Array], Array]) -> tuple[float, float]:
    """The smallest and the largest sum of a row. A part at a time, since a copy of many classes is large.

    By NumPy: operators that the training does not use itself would be loaded for this alone, and stay.
    """
    length = max(1, _AT_ONCE * len(rows) // rows.numel())
    low, high = math.inf, -math.inf
    for part in rows.split(length):
        with np.errstate(all="ignore"):
            sums = of(to_numpy(part, copy=False).astype(np.float64)).sum(1)
        if np.isnan(sums).any():
            return math.nan, math.nan
        low, high = min(low, float(sums.min())), max(high, float(sums.max()))
    return low, high


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
        kinds, counts = np.unique(to_numpy(labels, copy=False), return_counts=True)
        total = labels.numel()
        shares = [count / total for count in counts.tolist()]
        found["target_distinct"] = len(shares)
        found["target_entropy"] = -sum(share * math.log(share) for share in shares) + 0.0
        if shares:
            most = shares.index(max(shares))
            found["target_most"], found["target_most_share"] = int(kinds[most]), shares[most]
    return found


def tokens_against(target: torch.Tensor, fed: Sequence[torch.Tensor]) -> dict[str, Value]:
    """Whether the targets are the tokens that the network was fed: the same, or the next ones; and which, of several.

    >>> text = torch.arange(40).reshape(2, 20) % 7
    >>> tokens_against(text[:, 1:].reshape(-1), [text[:, :-1]])
    {'target_shift': 1}
    """
    if target.is_floating_point() or target.is_complex() or target.dtype is torch.bool:
        return {}
    with torch.no_grad():
        for place, tokens in enumerate(fed):
            of: dict[str, Value] = {"target_of": place} if len(fed) > 1 else {}
            if tokens.numel() != target.numel() or tokens.dim() != 2 or min(tokens.shape) < 1 or tokens.numel() < 8:
                continue
            wanted = target.detach().reshape(tokens.shape)
            counted = wanted >= 0  # a negative label is left out of the loss
            if int(tokens.min()) == int(tokens.max()):
                continue
            if _agree(wanted, tokens, counted):
                return {"target_shift": 0, **of}
            for dim in (1, 0):
                length = tokens.shape[dim] - 1
                if length >= 3 and _agree(
                    wanted.narrow(dim, 0, length), tokens.narrow(dim, 1, length), counted.narrow(dim, 0, length)
                ):
                    return {"target_shift": 1, **of}
    return {}


def padded_with(target: torch.Tensor, fed: Sequence[torch.Tensor]) -> dict[str, Value]:
    """The token of the input that stands where targets are filled up to one length, and the target it stands for.

    >>> padded_with(torch.tensor([[5, 7, 0, 0], [4, 0, 0, 0]]), [torch.tensor([[3, 2, 9, 9], [8, 9, 9, 9]])])
    {'padded_with': 9, 'padded_target': 0, 'padded_share': 0.625}
    >>> padded_with(torch.tensor([[0, 7, 0, 0], [4, 0, 0, 0]]), [torch.tensor([[3, 2, 9, 9], [8, 9, 9, 9]])])
    {}
    """
    if target.is_floating_point() or target.is_complex() or target.dtype is torch.bool:
        return {}
    with torch.no_grad():
        for tokens in fed:
            if tokens.numel() != target.numel() or tokens.dim() != 2 or min(tokens.shape) < 2:
                continue
            wanted, last = target.detach().reshape(tokens.shape), tokens[:, -1]
            token = int(last.mode().values)
            filled = tokens == token
            label = int(wanted[filled][0])
            if not torch.equal(filled, wanted == label) or bool(filled.all()):
                continue  # what is filled up has one target, which nothing else has
            if bool((filled[:, 1:] >= filled[:, :-1]).all()):  # and goes on to the end
                share = float(filled.double().mean())
                return {"padded_with": token, "padded_target": label, "padded_share": share}
    return {}


def _agree(a: torch.Tensor, b: torch.Tensor, counted: torch.Tensor) -> bool:
    return int(counted.sum()) >= 4 and bool((a == b)[counted].all())


def learnt(target: torch.Tensor) -> dict[str, Value]:
    """Of a target that carries gradients itself: how much it differs between the samples of a batch.

    >>> made = torch.arange(16.0).view(8, 2).requires_grad_() * 1
    >>> learnt(made)["target_learnt"], round(learnt(made)["target_spread"], 3), learnt(made.detach())
    (True, 4.899, {})
    """
    if not target.requires_grad or target.dim() < 2 or len(target) < _FEWEST_SAMPLES or target.device.type != "cpu":
        return {}
    spread = target.detach().to(torch.float32).std(dim=0).mean()
    return {"target_learnt": True, "target_spread": float(spread)}
