"""Learning-rate schedules: the common ones, and any other looked at before the training.

A schedule is a function of the step, counted from 0. `LearningRateScheduler` uses one in a training, `check` says what
is odd about it, `draw` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensight.errors import UsageError

Rates = Sequence[float]


class Schedule:
    """A rate for each step."""

    by_step = True  # takes the step alone

    def __init__(self, name: str, rate: Callable[[int], float]) -> None:
        self.name = name
        self._rate = rate

    def __call__(self, step: int) -> float:
        return float(self._rate(step))

    def __repr__(self) -> str:
        return f"Schedule({self.name})"


def constant(rate: float) -> Schedule:
    """
    >>> constant(0.1)(7)
    0.1
    """
    _positive("learning rate", rate)
    return Schedule("constant", lambda step: rate)


def warm_up(rate: float, steps: int, then: Callable[[int], float] | None = None) -> Schedule:
    """From 0 in a straight line to `rate` in `steps` steps; after that `then`, its steps counted from 0, or `rate`.

    >>> schedule = warm_up(0.1, 4)
    >>> [round(schedule(step), 3) for step in range(6)]
    [0.0, 0.025, 0.05, 0.075, 0.1, 0.1]
    """
    _positive("learning rate", rate)
    _positive("steps of the warm-up", steps)
    after = then or (lambda step: rate)
    return Schedule("warm_up", lambda step: rate * step / steps if step < steps else after(step - steps))


def cosine(rate: float, steps: int, lowest: float = 0.0) -> Schedule:
    """Half a cosine from `rate` to `lowest` in `steps` steps.

    >>> [round(cosine(1.0, 2)(step), 3) for step in range(4)]
    [1.0, 0.5, 0.0, 0.0]
    """
    _positive("steps", steps)
    swing = (rate - lowest) / 2
    return Schedule("cosine", lambda step: lowest + swing * (1 + math.cos(math.pi * min(step, steps) / steps)))


def polynomial(rate: float, steps: int, lowest: float = 0.0, power: float = 1.0) -> Schedule:
    """From `rate` to `lowest` in `steps` steps; a straight line with power 1."""
    _positive("steps", steps)
    return Schedule("polynomial", lambda step: lowest + (rate - lowest) * (1 - min(step, steps) / steps) ** power)


def exponential(rate: float, factor: float, every: int = 1, stairs: bool = False) -> Schedule:
    """Multiplied by `factor` after `every` steps, little by little or in stairs.

    >>> [exponential(1.0, 0.5, 2, stairs=True)(step) for step in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    _positive("steps", every)
    return Schedule("exponential", lambda step: rate * factor ** (step // every if stairs else step / every))


def pieces(milestones: Sequence[int], rates: Rates) -> Schedule:
    """`rates[i]` until step `milestones[i]`.

    >>> [pieces([2, 4], [0.1, 0.01])(step) for step in range(5)]
    [0.1, 0.1, 0.01, 0.01, 0.01]
    """
    if len(milestones) != len(rates) or not rates or list(milestones) != sorted(set(milestones)):
        raise UsageError("pieces: give as many milestones as rates, and the milestones in order")
    return Schedule("pieces", lambda step: next((r for m, r in zip(milestones, rates) if step < m), rates[-1]))


def inverse_root(rate: float, warm: int) -> Schedule:
    """A warm-up of `warm` steps, then falling with one over the root of the step."""
    _positive("steps of the warm-up", warm)
    return Schedule("inverse_root", lambda step: rate * min((step + 1) / warm, math.sqrt(warm / (step + 1))))


def one_cycle(rate: float, steps: int, rise: float = 0.3, start: float = 25.0, end: float = 1e4) -> Schedule:
    """Up from `rate / start` to `rate` in the first part, down to `rate / end` in the rest; both as a cosine."""
    _positive("steps", steps)
    top = max(1, round(rise * steps))

    def at(step: int) -> float:
        low, high, share = (rate / start, rate, step / top) if step < top else (rate, rate / end, 0.0)
        if step >= top:
            share = min(1.0, (step - top) / max(1, steps - top))
        return low + (high - low) * (1 - math.cos(math.pi * share)) / 2

    return Schedule("one_cycle", at)


def rates_of(schedule: Any, steps: int) -> list[Any]:
    """The first `steps` rates: of a schedule, a function of the step, or a list of rates.

    >>> rates_of([0.1, 0.2], 2), rates_of(lambda step: step / 10, 2)
    ([0.1, 0.2], [0.0, 0.1])
    """
    if isinstance(schedule, (list, tuple, np.ndarray)):
        return list(schedule[:steps])
    if not callable(schedule):
        raise UsageError(f"{type(schedule).__name__} is no schedule; give a function of the step or a list of rates")
    return [_plain(schedule(step)) for step in range(steps)]


def check(schedule: Any, steps: int) -> list[str]:
    """What is odd about the first `steps` rates, in sentences; empty when nothing is.

    >>> check(cosine(0.1, 100), 100)
    []
    >>> check([0.1, -0.1], 2)
    ['the rate is negative (-0.1) at step 1']
    """
    found: list[str] = []
    rates = rates_of(schedule, steps)
    if len(rates) < steps:
        found.append(f"there are {len(rates)} rates for {steps} steps")
    numbers: list[float] = []
    for step, rate in enumerate(rates):
        if isinstance(rate, (bool, str)) or not isinstance(rate, (int, float, np.number)):
            return [*found, f"the rate at step {step} is of type {type(rate).__name__}, not a number"]
        if not math.isfinite(rate):
            return [*found, f"the rate is {rate} at step {step}"]
        if rate < 0:
            return [*found, f"the rate is negative ({rate:g}) at step {step}"]
        numbers.append(float(rate))
    if not numbers:
        return found
    top = max(numbers)
    if top == 0:
        found.append("the rate is 0 in every step: nothing is trained")
    elif top > 10:
        found.append(f"the rate reaches {top:g} at step {numbers.index(top)}, which is very high")
    if len(numbers) > 10 and top > 0 and not any(numbers[len(numbers) // 2 :]):
        found.append(f"the rate is 0 from step {_last_positive(numbers) + 1} on: half of the training changes nothing")
    jump = _jump(numbers)
    if jump is not None:
        found.append(f"the rate jumps up from {numbers[jump]:g} to {numbers[jump + 1]:g} at step {jump + 1}")
    return found


def draw(schedule: Any, steps: int, width: int = 60, height: int = 10) -> str:
    """A drawing for the terminal.

    >>> print(draw(warm_up(1.0, 10), 20, width=10, height=3))
    1.000e+00 │    ▄█████
              │  ▄███████
    0.000e+00 │ █████████
               0 … 19
    """
    rates = [float(rate) for rate in rates_of(schedule, steps)]
    if not rates or not all(map(math.isfinite, rates)):
        raise UsageError("draw: the schedule has rates that are no numbers; check() names them")
    columns = [float(np.mean(part)) for part in np.array_split(np.array(rates), min(width, len(rates)))]
    low, high = min(0.0, *columns), max(columns)
    span = (high - low) or 1.0
    lines = []
    for row in range(height, 0, -1):
        cells = "".join(_cell((value - low) / span * height - (row - 1)) for value in columns)
        label = f"{high:.3e}" if row == height else f"{low:.3e}" if row == 1 else " " * 9
        lines.append(f"{label} │{cells}".rstrip())
    return "\n".join([*lines, f"{'':10} 0 … {len(rates) - 1}"])


def _cell(filled: float) -> str:
    return "█" if filled >= 0.75 else "▄" if filled >= 0.25 else " "


def _jump(rates: list[float]) -> int | None:
    """Where the rate rises to more than ten times what it was, after the beginning."""
    for step in range(1, len(rates) - 1):
        if rates[step + 1] > 10 * rates[step] > 0 and rates[step + 1] - rates[step] > 0.2 * max(rates):
            return step
    return None


def _last_positive(rates: list[float]) -> int:
    return max(step for step, rate in enumerate(rates) if rate)


def _plain(value: Any) -> Any:
    """A rate as a number, also where a schedule answers a tensor of one value."""
    from tensight.kit.backend import array, imported

    if any(one.is_tensor(value) for one in imported()):
        return float(array(value).reshape(-1)[0])
    return value


def _positive(what: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise UsageError(f"schedule: the {what} is {value!r}; give a number above 0")
