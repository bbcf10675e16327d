"""What is known of a tensor after one pass over it."""

from __future__ import annotations

import msgspec


class Within(msgspec.Struct, frozen=True, gc=False):
    """How many finite values lie inside [start, end], both ends included."""

    start: float
    end: float
    count: int


class Change(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tensor against an earlier copy of itself, over the elements that are finite in both.

    `moved` counts elements with abs(now - before) > atol + rtol * abs(before), and elements that were or became
    non-finite without staying the same value.
    `equal` counts elements that kept every bit.
    """

    count: int
    abs_mean: float
    abs_max: float
    before_abs_mean: float
    moved: int
    equal: int
    rtol: float = 1e-5
    atol: float = 1e-8


class Stats(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Statistics of one tensor; `min` to `l2` are over its finite values, and 0 or None where there are none.

    Counts and extremes are exact; integers beyond 2**53 keep exact `min` and `max`. `std` is the population's.

    >>> Stats(count=4, zero=1, positive=2, negative=1, min=-1.0, max=2.0, mean=0.5, abs_mean=1.0).finite
    4
    """

    count: int
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    negative: int = 0
    positive: int = 0
    min: float | int | None = None
    max: float | int | None = None
    mean: float | None = None
    abs_mean: float | None = None
    std: float | None = None
    l2: float | None = None
    within: tuple[Within, ...] = ()
    change: Change | None = None

    @property
    def inf(self) -> int:
        return self.pos_inf + self.neg_inf

    @property
    def bad(self) -> int:
        """How many values are NaN or infinite."""
        return self.nan + self.pos_inf + self.neg_inf

    @property
    def finite(self) -> int:
        return self.count - self.bad


class Needs(msgspec.Struct, frozen=True):
    """What active conditions ask of the pass over a tensor beside the statistics that always come.

    `ranges` become `Stats.within`, in order; `change` asks for `Stats.change` with the given tolerances.
    """

    ranges: tuple[tuple[float, float], ...] = ()
    change: bool = False
    rtol: float = 1e-5
    atol: float = 1e-8
