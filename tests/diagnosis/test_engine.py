"""The engine: causes before consequences, stable findings, errors that harm nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import pytest

from tensight.diagnosis import Case, Engine, Rule
from tensight.diagnosis.rules import RULES, all_rules
from tensight.records import Finding, StepRecord, Where
from tests.diagnosis.builders import Run


class Says(Rule):
    """A rule that says what it is told to, from a step on."""

    category = "data"
    finds = ""
    evidence = ()
    every = 1

    def __init__(self, fault: str, since: int = 0, confidence: float = 0.9, *, explains: Iterable[str] = ()) -> None:
        self.fault = fault  # type: ignore[misc]
        self.explains = frozenset(explains)  # type: ignore[misc]
        self.said: list[Finding] = [self.finding(fault, confidence=confidence, since_step=since, where=Where(), why="")]

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        return self.said


class Symptom(Says):
    symptom: ClassVar[bool] = True


class Breaks(Says):
    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        raise RuntimeError("broken")


def _after(*rules: Rule, steps: int = 3) -> Engine:
    engine = Engine(rules)
    for step in range(steps):
        engine.step(StepRecord(step, 0.0, 0.1, loss=1.0))
    return engine


def test_a_consequence_is_folded_into_its_cause() -> None:
    engine = _after(Says("b", 3), Says("a", 2, explains=["b"]))
    (finding,) = engine.findings
    assert finding.fault == "a"
    assert finding.then == ("b (step 3)",)


def test_what_came_long_before_is_no_consequence() -> None:
    engine = _after(Says("b", 1), Says("a", 9, explains=["b"]))
    assert {finding.fault for finding in engine.findings} == {"a", "b"}


def test_chains_end_at_the_root() -> None:
    engine = _after(Says("c", 3), Says("b", 2, explains=["c"]), Says("a", 1, explains=["b"]))
    (finding,) = engine.findings
    assert finding.fault == "a"
    assert finding.then == ("b (step 2)", "c (step 3)")


def test_of_two_that_explain_each_other_the_earlier_stays() -> None:
    engine = _after(Says("late", 5, explains=["early"]), Says("early", 4, explains=["late"]))
    assert [finding.fault for finding in engine.findings] == ["early"]


def test_three_in_a_circle_leave_one() -> None:
    engine = _after(Says("a", 1, explains=["b"]), Says("b", 1, explains=["c"]), Says("c", 1, explains=["a"]))
    assert len(engine.findings) == 1


def test_a_definite_cause_explains_later_symptoms() -> None:
    engine = _after(Symptom("slow", 4), Says("cause", 2))
    assert [finding.fault for finding in engine.findings] == ["cause"]


def test_an_uncertain_cause_explains_no_symptom() -> None:
    engine = _after(Symptom("slow", 4), Says("guess", 2, confidence=0.5))
    assert len(engine.findings) == 2


def test_the_most_certain_comes_first() -> None:
    engine = _after(Says("a", 0, 0.6), Says("b", 5, 0.9))
    assert [finding.fault for finding in engine.findings] == ["b", "a"]


def test_a_finding_is_new_once() -> None:
    engine = Engine([Says("a")])
    record = StepRecord(0, 0.0, 0.1, loss=1.0)
    assert [finding.fault for finding in engine.step(record)] == ["a"]
    assert engine.step(record) == []
    assert engine.end(crashed=False) == []


def test_the_first_step_of_a_finding_never_moves_later() -> None:
    rule = Says("a", 3)
    engine = _after(rule)
    rule.said = Says("a", 9).said
    engine.step(StepRecord(3, 0.0, 0.1, loss=1.0))
    assert engine.findings[0].since_step == 3


def test_what_a_rule_no_longer_says_is_withdrawn() -> None:
    rule = Says("a", 3)
    engine = _after(rule)
    rule.said = []
    engine.end(crashed=False)
    assert engine.findings == []


def test_a_rule_that_breaks_is_reported_once_and_left_out() -> None:
    seen: list[str] = []
    engine = Engine([Breaks("bad"), Says("good")], lambda where, error: seen.append(f"{where}: {error}"))
    for step in range(3):
        engine.step(StepRecord(step, 0.0, 0.1, loss=1.0))
    engine.end(crashed=True)
    assert seen == ["rule bad: broken"]
    assert [finding.fault for finding in engine.findings] == ["good"]


def test_findings_carry_the_rank() -> None:
    engine = Engine([Says("a")], rank=3)
    assert engine.step(StepRecord(0, 0.0, 0.1))[0].rank == 3


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_describes_itself(rule: type[Rule]) -> None:
    assert rule.fault.replace("_", "").isalnum()
    assert rule.fault == rule.fault.lower()
    assert rule.finds.endswith(".")
    assert rule.evidence
    assert rule.__doc__


def test_no_two_rules_have_one_fault() -> None:
    faults = [rule.fault for rule in RULES]
    assert len(set(faults)) == len(faults)


def test_every_rule_survives_an_empty_run() -> None:
    seen: list[str] = []
    engine = Engine(all_rules(), lambda where, error: seen.append(where))
    engine.end(crashed=True)
    for step in range(30):
        engine.step(StepRecord(step, 0.0, 0.1))
    engine.end(crashed=False)
    assert seen == []
    assert engine.findings == []


def test_the_same_records_give_the_same_findings_again() -> None:
    def once() -> list[Finding]:
        run = Run()
        run.layers[0].gradient = None
        return run.stall(30).end()

    assert once() == once()
