"""Rows of a step are written one after the other, and read as one array."""

from __future__ import annotations

import pytest

from tensight.records import Observation, Stats, StepRecord, Within
from tensight.store import codec


@pytest.mark.parametrize("count", [0, 1, 15, 16, 255, 256, (1 << 16) - 1, 1 << 16])
def test_a_step_of_any_number_of_observations_is_read_as_it_was(count: int) -> None:
    seen = tuple(Observation(i, i, Stats(i, positive=i), micro=i % 2) for i in range(count))
    record = StepRecord(step=3, time=1.0, seconds=0.5, observations=seen)
    assert codec.decode_step(codec.encode_step(record)) == record


def test_ranges_and_what_could_not_be_judged_are_written_too() -> None:
    ranges = Stats(3, positive=3, within=(Within(0.0, 1.0, 2), Within(2.0, 3.0, 1)))
    seen = (Observation(0, 0, ranges), Observation(1, 1, Stats(0), "update", 1, (2, 3), "dtype"))
    record = StepRecord(step=0, time=1.0, seconds=0.5, observations=seen)
    assert codec.decode_step(codec.encode_step(record)) == record
