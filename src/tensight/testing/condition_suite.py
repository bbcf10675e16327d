"""What every condition must do, as a class of tests.

A condition, ours or a stranger's, is named in a subclass:

    class TestMine(ConditionSuite):
        condition = Mine
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tensight.errors import SpecError
from tensight.records import Hit, Observation, Stats, TensorInfo, Watchpoint
from tensight.watchpoints.advice import advice
from tensight.watchpoints.catalogue import CONDITIONS, build, describe, find
from tensight.watchpoints.checker import Checker
from tensight.watchpoints.condition import NO_HISTORY, Condition, Example
from tensight.watchpoints.selectors import Selector


class ConditionSuite:
    """Tests that hold for every condition; each judges it by its own examples."""

    condition: type[Condition]

    def _examples(self) -> Iterator[tuple[Example, Condition, TensorInfo]]:
        for example in self.condition.examples:
            yield example, self.condition(**example.settings), example.info or self._tensor()

    def _tensor(self) -> TensorInfo:
        kinds = self.condition.applies_to
        kind = next(
            (kind for kind in ("weight", "gradient", "activation", "output", "loss", "input") if kind in kinds), None
        )
        return TensorInfo(id=0, kind=kind or "output", node="head", slot="weight", dtype="float32")

    def _given(self) -> dict[str, float]:
        """Settings that the condition accepts."""
        return dict(self.condition.examples[0].settings)

    def test_it_says_what_it_finds_why_it_matters_and_what_to_do(self) -> None:
        condition = self.condition
        assert re.fullmatch(r"[A-Z][A-Z0-9_]*", condition.code), condition.code
        assert re.fullmatch(r"[a-z][a-z0-9_]*", condition.name), condition.name
        for text in (condition.title, condition.finds, condition.matters, *condition.causes, *condition.try_):
            assert text.strip()
            assert text == text.strip()
        assert condition.causes
        assert condition.try_
        assert condition.finds.endswith(".")
        assert condition.matters.endswith(".")

    def test_it_has_an_example_that_hits_and_one_that_does_not(self) -> None:
        assert {example.hit for example in self.condition.examples} == {True, False}

    def test_its_examples_hit_where_they_say(self) -> None:
        for example, condition, info in self._examples():
            verdict = condition.judge(example.now, example.history, info)
            assert bool(verdict.held) == example.hit, (condition, example.now, verdict)
            assert not (verdict.held and verdict.error), verdict

    def test_its_gate_lets_every_hit_through(self) -> None:
        for example, condition, info in self._examples():
            gate = condition.gate(info)
            assert gate is None or not example.hit or gate(example.now), (condition, example.now)

    def test_judging_twice_gives_the_same(self) -> None:
        for example, condition, info in self._examples():
            assert condition.judge(example.now, example.history, info) == condition.judge(
                example.now, example.history, info
            )

    def test_an_empty_tensor_is_no_value(self) -> None:
        info = self._tensor()
        verdict = self.condition(**self._given()).judge(Stats(count=0), NO_HISTORY, info)
        assert not verdict.held
        assert verdict.error == "no_value"

    def test_its_defaults_lie_in_their_own_ranges(self) -> None:
        for setting in self.condition.settings:
            assert setting.help.strip()
            assert setting.default is None or setting.allows(setting.default), setting
        assert {setting.name for setting in self.condition.settings} >= set(self.condition.one_of)

    def test_it_refuses_what_is_no_number_or_out_of_range(self) -> None:
        outside = {"pct": (-1, 101), "abs": (-1,), "pos": (0, -1), "any": (), "count": (0, 1.5, 1001)}
        for setting in self.condition.settings:
            for value in (True, None, "1", math.nan, math.inf, -math.inf, *outside[setting.range]):
                wrong: dict[str, Any] = {**self._given(), setting.name: value}
                message = _refusal(self.condition, wrong)
                assert setting.name in message, (setting.name, value, message)
        assert "no_such_parameter" in _refusal(self.condition, {"no_such_parameter": 1.0})

    def test_it_accepts_whole_numbers_as_floats(self) -> None:
        for value in self.condition.accept(self._given()).values():
            assert isinstance(value, float)

    def test_its_own_selector_names_what_it_judges(self) -> None:
        Selector.parse(self.condition.on).require(self.condition.code, self.condition.applies_to)

    def test_it_travels_as_data(self) -> None:
        described = json.loads(json.dumps(describe(self.condition), allow_nan=False))
        assert described["code"] == self.condition.code
        for example in self.condition.examples:
            watchpoint = self.condition(**example.settings).watchpoint(1)
            assert msgspec.json.decode(msgspec.json.encode(watchpoint), type=Watchpoint) == watchpoint

    def test_the_catalogue_builds_it_again_from_its_watchpoint(self) -> None:
        assert CONDITIONS.get(self.condition.code) is self.condition, "register the condition first"
        for word in (self.condition.code, self.condition.name, self.condition.__name__):
            assert find(word) is self.condition
        for example in self.condition.examples:
            condition = self.condition(**example.settings)
            assert build(condition.watchpoint(1)).given == condition.given

    def test_the_checker_gives_records_that_can_be_written(self) -> None:
        for example, condition, info in self._examples():
            if example.history != NO_HISTORY:
                continue
            checker = Checker([condition.watchpoint(1, on=f"{info.kind}:*")])
            hits = checker.check(0, [Observation(info.id, 0, example.now)], {info.id: info}, updates=0)
            assert [hit for hit in hits if hit.error is None] == hits[: int(example.hit)], hits
            for hit in hits:
                assert msgspec.msgpack.decode(msgspec.msgpack.encode(hit), type=Hit) == hit
                assert advice(hit).finds


def _refusal(condition: type[Condition], given: dict[str, Any]) -> str:
    try:
        condition(**given)
    except SpecError as error:
        return str(error)
    raise AssertionError(f"{condition.__name__} accepted {given}")
