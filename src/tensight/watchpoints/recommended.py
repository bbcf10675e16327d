"""The recommended set: on in every run, silent on healthy training, and never interrupting anybody."""

from __future__ import annotations

import math

from tensight.records import Watchpoint
from tensight.watchpoints.catalogue import (
    ActivationRange,
    GradientVanishing,
    OperatorOverflow,
    TensorAllZero,
    TensorOverflow,
    WeightChangeTooLarge,
    WeightInitialization,
    WeightNotChanged,
)
from tensight.watchpoints.condition import Condition

MOST_HITS = 1000
"""After so many hits of one watchpoint there is nothing more to learn from it, and much to store."""

_TANH = math.tanh(8.8)
_SIGMOID = 1 / (1 + math.exp(-16.2))

_RELU = "activation[relu|relu6|reluv2|leakyrelu|prelu|rrelu|threshold]:*"
_SEEN = "input:*, prediction:*, output:*, weight:*"
_BACK = "gradient:*, gradient:activation:*"

_SET: tuple[tuple[str, Condition, str, int], ...] = (
    ("weights start at zero", WeightInitialization(zero_percentage_ge=100), "weight:*", 1),
    ("weights change too much", WeightChangeTooLarge(abs_mean_update_ratio_gt=1), "weight:*", 1),
    ("weights do not change", WeightNotChanged(rtol=1e-5), "weight:*", 5),
    ("gradients vanish", GradientVanishing(abs_mean_lt=1e-9), "gradient:*", 1),
    ("NaN or Inf", TensorOverflow(), "*", 1),
    ("an operator makes NaN or Inf", OperatorOverflow(), "*", 1),
    ("all zero", TensorAllZero(zero_percentage_ge=100), _SEEN, 1),
    ("gradients are all zero", TensorAllZero(zero_percentage_ge=100), _BACK, 3),
    (
        "tanh saturated",
        ActivationRange(range_percentage_lt=0.1, range_start_inclusive=-_TANH, range_end_inclusive=_TANH),
        "activation[tanh]:*",
        1,
    ),
    (
        "sigmoid saturated",
        ActivationRange(range_percentage_lt=0.1, range_start_inclusive=1 - _SIGMOID, range_end_inclusive=_SIGMOID),
        "activation[sigmoid]:*",
        1,
    ),
    (
        "relu dead",
        ActivationRange(range_percentage_gt=99.9, range_start_inclusive=-1, range_end_inclusive=0),
        _RELU,
        1,
    ),
)


def watchpoints(first_id: int = 1) -> list[Watchpoint]:
    """The recommended set, with ids from `first_id` on.

    >>> [watchpoint.condition for watchpoint in watchpoints()]
    ['WI', 'WCL', 'WNC', 'GV', 'TO', 'OO', 'TZ', 'TZ', 'AR', 'AR', 'AR']
    """
    return [
        condition.watchpoint(id, on, name=name, recommended=True, in_a_row=in_a_row, at_most=MOST_HITS)
        for id, (name, condition, on, in_a_row) in enumerate(_SET, first_id)
    ]
