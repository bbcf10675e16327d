"""What a step was given, written down for a copy of the process that stays and runs one step after another.

A fresh copy has everything by itself. One that stays is told the batch, the weights and the random state of each step;
the rest (functions, cells, settings) it has from the moment it was made, and `Shadow.setting` tells when that is stale.
"""

from __future__ import annotations

import pickle
from typing import Any

import mindspore
import msgspec
import numpy as np
from mindspore import Parameter, Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore.values import dtype_name, view

_PLAIN = (bool, int, float, str, bytes, type(None))


class Unsaid(Exception):
    """A step was given something that cannot be written down."""


class Order(msgspec.Struct):
    """One step."""

    step: int
    args: Any
    kwargs: Any
    weights: list[Array | None]
    random: Array | None
    structure: bool = False


class _Written(msgspec.Struct):
    dtype: str
    values: Array


def written(order: Order) -> bytes:
    """Only ever read by a copy of this very process: pickle is safe here."""
    args, kwargs = _written(order.args), _written(order.kwargs)
    parts = (order.step, args, kwargs, order.weights, order.random, order.structure)
    return pickle.dumps(parts, protocol=pickle.HIGHEST_PROTOCOL)


def read(data: bytes) -> Order:
    step, args, kwargs, weights, random, structure = pickle.loads(data)
    return Order(step, _read(args), _read(kwargs), weights, random, structure)


def _written(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_written(item) for item in value)
    if type(value) is dict:
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        array = view(value)
        if array.dtype.kind in "biufc":
            return _Written(dtype_name(value), np.ascontiguousarray(array).reshape(array.shape))
    raise Unsaid(type(value).__name__)


def _read(value: Any) -> Any:
    if isinstance(value, _Written):
        return Tensor(value.values, getattr(mindspore, "bool_" if value.dtype == "bool" else value.dtype))
    if isinstance(value, (tuple, list)):
        return type(value)(_read(item) for item in value)
    if isinstance(value, dict):
        return {key: _read(item) for key, item in value.items()}
    return value
