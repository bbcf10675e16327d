"""Numbers arrive exactly: NaN, infinities, negative zero, subnormals, 64-bit integers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.records import Observation, RunEnd, RunInfo, Stats, StepRecord, TensorInfo
from tensight.server.wire import dumps
from tensight.store import Writer
from tests.server.serving import client


def back(text: bytes) -> object:
    """What the page makes of it."""

    def number(value: object) -> object:
        words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
        return words.get(value, value) if isinstance(value, str) else value

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return number(json.loads(text, parse_constant=refuse))


@given(st.floats())
@settings(deadline=None, max_examples=150, derandomize=True)
def test_every_float_comes_back_with_every_bit(value: float) -> None:
    got = back(dumps(value))
    assert isinstance(got, (int, float))
    assert math.isnan(got) if math.isnan(value) else (got, math.copysign(1, got)) == (value, math.copysign(1, value))


@given(st.integers(-(2**63), 2**64 - 1))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_every_integer_comes_back_with_every_digit(value: int) -> None:
    got = back(dumps(value))
    assert int(got) == value  # type: ignore[call-overload]
    assert isinstance(got, str) == (abs(value) > 2**53)


@given(st.text())
@settings(deadline=None, max_examples=100, derandomize=True)
def test_every_name_comes_back(name: str) -> None:
    assert json.loads(dumps({"name": name})) == {"name": name}


STRANGE = {
    "nan": (math.nan, "nan"),
    "inf": (math.inf, "inf"),
    "minus inf": (-math.inf, "-inf"),
    "minus zero": (-0.0, -0.0),
    "subnormal": (5e-324, 5e-324),
    "largest": (1.7976931348623157e308, 1.7976931348623157e308),
    "large integer": (2**63 - 1, str(2**63 - 1)),
    "negative integer": (-(2**63), str(-(2**63))),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_statistic_goes_from_the_run_directory_to_the_page_unchanged(name: str, tmp_path: Path) -> None:
    given_, expected = STRANGE[name]
    writer = Writer(tmp_path / "strange", RunInfo("strange", ("x",), 0.0))
    writer.tensor(TensorInfo(id=0, kind="output", node="fc", slot="output.0"))
    stats = Stats(count=3, min=given_, max=given_)
    loss = float(given_)
    writer.step(StepRecord(0, 0.0, 0.1, loss=loss, observations=(Observation(0, 0, stats),)))
    writer.end(RunEnd("finished", 0.0))
    writer.close()
    with client(tmp_path) as page:
        seen = page.get("/api/runs/strange/node?node=fc").json()["tensors"][0]["seen"]["stats"]
        curve = page.get("/api/runs/strange/series?tensor=0&statistic=max").json()["value"]
        losses = page.get("/api/runs/strange/steps").json()["ranks"][0]["loss"]
    for got in (seen["min"], seen["max"], curve[0]):
        assert got == expected
        assert str(got) == str(expected)  # the sign of zero too
    if isinstance(given_, float):
        assert str(losses[0]) == str(expected)
