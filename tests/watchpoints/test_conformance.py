"""Every condition of the catalogue passes the shipped suite."""

from __future__ import annotations

import pytest

from tensight.testing.condition_suite import ConditionSuite
from tensight.watchpoints.catalogue import CLASSES, CONDITIONS
from tensight.watchpoints.condition import QUIET, Example

for _name, _condition in CLASSES.items():
    globals()[f"Test{_name}"] = type(f"Test{_name}", (ConditionSuite,), {"condition": _condition})


def test_the_seventeen_come_first_with_their_old_codes_and_names():
    seventeen = {
        "TO": "tensor_overflow",
        "OO": "operator_overflow",
        "TZ": "tensor_all_zero",
        "TR": "tensor_range",
        "TL": "tensor_too_large",
        "TS": "tensor_too_small",
        "WI": "weight_initialization",
        "WO": "weight_overflow",
        "WL": "weight_too_large",
        "WS": "weight_too_small",
        "WNC": "weight_not_changed",
        "WCL": "weight_change_too_large",
        "WCS": "weight_change_too_small",
        "AR": "activation_range",
        "GV": "gradient_vanishing",
        "GL": "gradient_too_large",
        "GE": "gradient_exploding",
    }
    assert {code: condition.name for code, condition in list(CONDITIONS.items())[:17]} == seventeen


def test_codes_and_names_are_unique():
    assert len({condition.name for condition in CONDITIONS.values()}) == len(CONDITIONS)
    assert len(CLASSES) >= 35


def test_a_condition_without_a_judgement_cannot_be_made():
    from tensight.watchpoints.condition import Condition

    with pytest.raises(TypeError):
        Condition()  # type: ignore[abstract]


def test_the_suite_finds_a_condition_that_does_not_do_what_its_examples_say():
    class Broken(CLASSES["TensorOverflow"]):
        examples = (Example(CLASSES["TensorOverflow"].examples[0].now, hit=True),)

        def judge(self, now, history, info):
            return QUIET

    suite = ConditionSuite()
    suite.condition = Broken
    with pytest.raises(AssertionError):
        suite.test_its_examples_hit_where_they_say()
    with pytest.raises(AssertionError):
        suite.test_it_has_an_example_that_hits_and_one_that_does_not()
