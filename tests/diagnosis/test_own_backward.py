"""A backward written by hand that is not the slope of its forward."""

from __future__ import annotations

import pytest

from tensight.records import Event, Source
from tests.diagnosis.builders import Run

LINE = Source("train.py", 31, "return grad * -s")


def course(end: float, differs: float, opposite: float, looks: int = 3) -> Run:
    run = Run()
    values = {"function": "Swish", "module": "fc1", "differs": differs, "opposite": opposite}
    for at in range(60):
        told = [Event("own_slope", part="net", values=values, source=LINE)] if at < looks else []
        run.train(1.4 + (end - 1.4) * at / 60, events=[*told, *run.events()])
    return run


@pytest.mark.parametrize(("end", "differs", "opposite"), [(1.4, 0.3, 0.0), (0.4, 0.6, 0.0), (0.4, 0.4, 0.5)])
def test_a_wrong_backward_is_named_on_its_line(end: float, differs: float, opposite: float) -> None:
    run = course(end, differs, opposite)
    assert run.faults() == ["custom_backward_wrong"]
    found = run.engine.findings[0]
    assert (found.where.line, found.where.module, found.since_step) == (31, "fc1", 0)
    assert "custom autograd.Function" in found.why


@pytest.mark.parametrize(("end", "differs", "opposite"), [(0.4, 0.3, 0.0), (1.4, 0.2, 0.0), (0.4, 0.01, 0.0)])
def test_a_slope_that_is_a_little_softer_has_no_finding(end: float, differs: float, opposite: float) -> None:
    assert "custom_backward_wrong" not in course(end, differs, opposite).faults()


def test_one_look_is_not_enough() -> None:
    assert "custom_backward_wrong" not in course(1.4, 2.0, 1.0, looks=1).faults()


def test_a_wrong_gradient_of_a_product_names_the_argument() -> None:
    run = Run()
    values = {"function": "Linear", "module": "fc1", "differs": 1.4, "opposite": 0.4, "argument": 1}
    for at in range(60):
        told = [Event("own_slope", part="net", values=values, source=LINE)] if at < 3 else []
        run.train(1.4 - at / 60, events=[*told, *run.events()])
    assert run.faults() == ["custom_backward_wrong"]
    assert "matrix product" in run.engine.findings[0].why
    assert "tensor 2 of its arguments" in run.engine.findings[0].why
