"""What can be said of an operator's inputs: in words for people, as numbers for the reasons."""

from __future__ import annotations

import math
from typing import Any

import torch

from tensight.frameworks.facts import Fact
from tensight.frameworks.torch.shards import local

_LARGE = 1 << 16


def is_float(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 0


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The values of any tensor as an ordinary dense one; float formats that lack operators come as float32."""
    tensor = local(tensor).detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_floating_point() and tensor.element_size() < 2:
        tensor = tensor.float()
    return tensor


def finite(tensor: torch.Tensor) -> bool:
    """Whether all values are finite. A sum tells it cheaply, unless it overflows."""
    if not is_float(tensor) or tensor.is_meta:
        return True
    values = plain(tensor)
    if values.numel() > _LARGE and math.isfinite(abs(values.sum().item())):
        return True
    return bool(torch.isfinite(values).all())


def bad(tensor: torch.Tensor) -> torch.Tensor:
    """Where values are NaN or infinite."""
    return ~torch.isfinite(plain(tensor))


def has_nan(tensor: torch.Tensor) -> bool:
    return is_float(tensor) and bool(torch.isnan(plain(tensor)).any())


def _number(value: torch.Tensor) -> float | int:
    return value.item()


def name_of(dtype: torch.dtype) -> str:
    """
    >>> name_of(torch.float16)
    'float16'
    """
    return str(dtype).removeprefix("torch.")


def numbers(tensor: torch.Tensor) -> dict[str, Fact]:
    """Counts and range of one tensor."""
    found: dict[str, Fact] = {
        "shape": "x".join(map(str, tensor.shape)),
        "dtype": name_of(tensor.dtype),
        "count": tensor.numel(),
    }
    if tensor.numel() == 0 or tensor.is_meta or tensor.is_complex():
        return found
    values = plain(tensor)
    if values.dtype is torch.bool:
        found["true"] = int(values.sum())
        return found
    found["zero"] = int((values == 0).sum())
    found["negative"] = int((values < 0).sum())
    if values.is_floating_point():
        ok = torch.isfinite(values)
        found["nan"] = int(torch.isnan(values).sum())
        found["pos_inf"] = int((values == math.inf).sum())
        found["neg_inf"] = int((values == -math.inf).sum())
        values = values[ok]
    if values.numel():
        found["min"] = _number(values.min())
        found["max"] = _number(values.max())
    return found


def rows_with(mask: torch.Tensor) -> tuple[int, int, list[int]]:
    """In how many rows (of how many) a mask is set, and the first of them."""
    if mask.dim() == 0:
        return int(mask), 1, [0] if bool(mask) else []
    hit = mask.reshape(mask.shape[0], -1).any(dim=1)
    return int(hit.sum()), mask.shape[0], hit.nonzero().flatten()[:8].tolist()


def scalars(args: tuple, kwargs: dict) -> dict[str, Fact]:
    """The plain numbers among an operator's arguments, by position or name."""
    found: dict[str, Fact] = {}
    for index, value in enumerate(args):
        if isinstance(value, (int, float, str)) or value is None:
            found[f"arg.{index}"] = int(value) if isinstance(value, bool) else value
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, int) for item in value):
            found[f"arg.{index}"] = ",".join(map(str, value))
    for key, value in kwargs.items():
        if isinstance(value, (int, float, str)):
            found[f"arg.{key}"] = int(value) if isinstance(value, bool) else value
    return found


def masked_rows(tensor: torch.Tensor, dim: int) -> int:
    """How many rows along `dim` hold nothing but -inf."""
    if tensor.dim() == 0:
        return int(tensor.item() == -math.inf)
    return int((plain(tensor) == -math.inf).all(dim=dim).sum())


def infinite_argument(value: Any) -> bool:
    """Whether an argument is itself a number that is not finite: then the user asked for it."""
    return isinstance(value, float) and not math.isfinite(value)


def bad_facts(tensor: torch.Tensor) -> dict[str, Fact]:
    """How much of a tensor is bad, and in which rows."""
    values = plain(tensor)
    mask = ~torch.isfinite(values)
    rows, of, first = rows_with(mask)
    return {
        "bad": int(mask.sum()),
        "bad_nan": int(torch.isnan(values).sum()),
        "bad_neg_inf": int(torch.isneginf(values).sum()),
        "bad_of": tensor.numel(),
        "bad_rows": rows,
        "bad_rows_of": of,
        "bad_row_list": ",".join(map(str, first)),
    }
