"""What the adapter suite compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tensight.records import Needs, Stats, TensorInfo
from tensight.stats import reference
from tensight.testing.adapter_programs import Outcome
from tensight.testing.fakes import Seen


def first(told: Sequence[Seen], what: str) -> Seen:
    return next(one for one in told if one.what == what)


def last(found: Sequence[tuple[TensorInfo, Seen]]) -> Stats:
    assert found, "nothing was observed"
    stats = found[-1][1].stats
    assert stats is not None
    return stats


def assert_same(a: Outcome, b: Outcome) -> None:
    """Two runs of a program ended with the same bits."""
    assert [np.float64(x).tobytes() for x in a.losses] == [np.float64(x).tobytes() for x in b.losses]
    assert a.weights.keys() == b.weights.keys()
    for name, weight in a.weights.items():
        assert weight.dtype == b.weights[name].dtype
        assert weight.tobytes() == b.weights[name].tobytes(), f"{name} differs"
    assert a.random == b.random, "a random number was drawn"
    assert a.printed == b.printed


def assert_statistics(stats: Stats, array: Any, before: Any = None) -> None:
    """Statistics are those of the array: counts and extremes exactly, means to rounding."""
    needs = Needs(change=before is not None)
    truth = reference.statistics(array, needs, before)
    for name in ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive", "min", "max"):
        assert getattr(stats, name) == getattr(truth, name), name
    for name in ("mean", "abs_mean", "std", "l2"):
        assert getattr(stats, name) == pytest.approx(getattr(truth, name), rel=1e-6, abs=1e-12), name
    if before is not None:
        assert stats.change is not None
        assert truth.change is not None
        assert (stats.change.moved, stats.change.equal) == (truth.change.moved, truth.change.equal)
        assert stats.change.abs_mean == pytest.approx(truth.change.abs_mean, rel=1e-6)
