"""All conditions by code, and how a watchpoint becomes one.

A new condition is a class in `conditions/<family>.py` and a line here. A package of your own adds conditions by
`register`, or by an entry point in the group 'tensight.conditions'.
"""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points
from typing import Any

from tensight.errors import SpecError
from tensight.records import Watchpoint
from tensight.watchpoints.condition import RANGES, Condition
from tensight.watchpoints.conditions.inputs import InputConstant, InputNotNormalised
from tensight.watchpoints.conditions.loss import LossDivergence, LossPlateau, LossSpike
from tensight.watchpoints.conditions.magnitude import (
    GradientTooLarge,
    GradientVanishing,
    TensorTooLarge,
    TensorTooSmall,
    WeightTooLarge,
    WeightTooSmall,
)
from tensight.watchpoints.conditions.overflow import (
    GradientExploding,
    LossOverflow,
    OperatorOverflow,
    TensorOverflow,
    WeightOverflow,
)
from tensight.watchpoints.conditions.range import ActivationRange, TensorRange
from tensight.watchpoints.conditions.spread import ActivationCollapsed, TensorNorm, TensorSpread
from tensight.watchpoints.conditions.trends import GradientSpike, TensorDrift, TensorPlateau, TensorSpike
from tensight.watchpoints.conditions.updates import GradientUnderflow, GradientWeightRatio, UpdateRatio, UpdatesLost
from tensight.watchpoints.conditions.weights import (
    WeightChangeTooLarge,
    WeightChangeTooSmall,
    WeightInitialization,
    WeightNotChanged,
)
from tensight.watchpoints.conditions.zeros import ActivationDead, TensorAllZero
from tensight.watchpoints.expression import Expression
from tensight.watchpoints.selectors import shortened

_CLASSES: tuple[type[Condition], ...] = (
    TensorOverflow,
    OperatorOverflow,
    TensorAllZero,
    TensorRange,
    TensorTooLarge,
    TensorTooSmall,
    WeightInitialization,
    WeightOverflow,
    WeightTooLarge,
    WeightTooSmall,
    WeightNotChanged,
    WeightChangeTooLarge,
    WeightChangeTooSmall,
    ActivationRange,
    GradientVanishing,
    GradientTooLarge,
    GradientExploding,
    TensorSpread,
    TensorNorm,
    TensorSpike,
    TensorDrift,
    TensorPlateau,
    UpdateRatio,
    UpdatesLost,
    GradientWeightRatio,
    GradientSpike,
    GradientUnderflow,
    ActivationDead,
    ActivationCollapsed,
    LossOverflow,
    LossSpike,
    LossPlateau,
    LossDivergence,
    InputNotNormalised,
    InputConstant,
)

CONDITIONS: dict[str, type[Condition]] = {condition.code: condition for condition in _CLASSES}
"""Every condition by its code; the seventeen come first, in their old order."""

CLASSES: dict[str, type[Condition]] = {condition.__name__: condition for condition in _CLASSES}
"""Every condition that ships with Tensight by the name of its class: what `tensight.TensorOverflow` looks up."""

EXPRESSION = Expression.code


def register(condition: type[Condition]) -> type[Condition]:
    """Add a condition of your own; usable as a decorator."""
    known = CONDITIONS.get(condition.code)
    if known is not None and known is not condition:
        raise SpecError(
            f"the code {condition.code} is taken by {known.__name__}: choose another for {condition.__name__}."
        )
    CONDITIONS[condition.code] = condition
    return condition


def find(word: str) -> type[Condition]:
    """The condition with this code, name or class name; a SpecError suggests what was meant.

    >>> find("TL") is find("tensor_too_large") is find("TensorTooLarge")
    True
    """
    found = _lookup(word)
    if found is None:
        for entry in entry_points(group="tensight.conditions"):
            register(entry.load())
        found = _lookup(word)
    if found is None:
        words = {spelt: condition for condition in CONDITIONS.values() for spelt in _spellings(condition)}
        near = difflib.get_close_matches(word.lower()[:80], words, 1)
        hint = (
            f"did you mean {words[near[0]].code} ({words[near[0]].name})?"
            if near
            else f"there are {', '.join(CONDITIONS)}."
        )
        raise SpecError(f"there is no condition {shortened(word)!r}: {hint}")
    return found


def _lookup(word: str) -> type[Condition] | None:
    spelt = word.lower()
    return next((condition for condition in CONDITIONS.values() if spelt in _spellings(condition)), None)


def _spellings(condition: type[Condition]) -> tuple[str, str, str]:
    return condition.code.lower(), condition.name.lower(), condition.__name__.lower()


def build(watchpoint: Watchpoint) -> Condition:
    """The condition of a watchpoint, with its parameters.

    >>> build(Watchpoint(1, "TZ", {"zero_percentage_ge": 50}))
    TensorAllZero(zero_percentage_ge=50)
    """
    if watchpoint.condition == EXPRESSION:
        return Expression(watchpoint.expression)
    return find(watchpoint.condition)(**watchpoint.parameters)


def describe(condition: type[Condition]) -> dict[str, Any]:
    """All that is known of a condition as plain data: what the page's form and the command line list show."""
    return {
        "code": condition.code,
        "name": condition.name,
        "title": condition.title,
        "on": condition.on,
        "applies_to": sorted(condition.applies_to),
        "settings": [
            {
                "name": setting.name,
                "help": setting.help,
                "range": setting.range,
                "allowed": RANGES[setting.range],
                "default": setting.default,
            }
            for setting in condition.settings
        ],
        "one_of": list(condition.one_of),
        "finds": condition.finds,
        "matters": condition.matters,
        "causes": list(condition.causes),
        "try": list(condition.try_),
    }


__all__ = [
    "CLASSES",
    "CONDITIONS",
    "EXPRESSION",
    "ActivationCollapsed",
    "ActivationDead",
    "ActivationRange",
    "Expression",
    "GradientExploding",
    "GradientSpike",
    "GradientTooLarge",
    "GradientUnderflow",
    "GradientVanishing",
    "GradientWeightRatio",
    "InputConstant",
    "InputNotNormalised",
    "LossDivergence",
    "LossOverflow",
    "LossPlateau",
    "LossSpike",
    "OperatorOverflow",
    "TensorAllZero",
    "TensorDrift",
    "TensorNorm",
    "TensorOverflow",
    "TensorPlateau",
    "TensorRange",
    "TensorSpike",
    "TensorSpread",
    "TensorTooLarge",
    "TensorTooSmall",
    "UpdateRatio",
    "UpdatesLost",
    "WeightChangeTooLarge",
    "WeightChangeTooSmall",
    "WeightInitialization",
    "WeightNotChanged",
    "WeightOverflow",
    "WeightTooLarge",
    "WeightTooSmall",
    "build",
    "describe",
    "find",
    "register",
]
