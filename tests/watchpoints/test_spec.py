"""Watchpoints as text and in files."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensight.watchpoints.catalogue as catalogue
from tensight.errors import SpecError
from tensight.records import Watchpoint
from tensight.watchpoints import spec
from tensight.watchpoints.catalogue import CONDITIONS, TensorTooLarge


def test_a_condition_with_parameters_selector_and_limits_is_read():
    limits = 'after=5 every=2 at_most=3 in_a_row=4 action=pause name="big"'
    assert spec.parse(f"TL(max_gt=1e2, mean_gt=-0.5) on gradient:encoder.*, loss {limits}", 7) == Watchpoint(
        id=7,
        condition="TL",
        parameters={"max_gt": 100.0, "mean_gt": -0.5},
        on="gradient:encoder.*, loss",
        name="big",
        after=5,
        every=2,
        at_most=3,
        in_a_row=4,
        action="pause",
    )


def test_an_expression_is_read():
    watchpoint = spec.parse("max > 3 * median(max, 100) on activation:* after=9", 1)
    assert (watchpoint.condition, watchpoint.expression) == ("EXPR", "max > 3 * median(max, 100)")
    assert (watchpoint.on, watchpoint.after) == ("activation:*", 9)
    assert spec.parse("not (max > 3)", 1).expression == "not (max > 3)"
    assert spec.parse("(max) > 3", 1).on == "*"


@pytest.mark.parametrize("word", ["TO", "to", "tensor_overflow", "TensorOverflow"])
def test_a_condition_goes_by_code_name_or_class(word):
    assert spec.parse(word, 1) == Watchpoint(1, "TO")


def test_defaults_are_filled_in():
    assert spec.parse("WCL", 1).parameters == {"abs_mean_update_ratio_gt": 0.1, "epsilon": 1e-9}
    assert spec.parse("WNC()", 1).parameters == {"rtol": 1e-5, "atol": 1e-8}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("TX", "there is no condition 'TX'"),
        ("tensor_overflaw", r"did you mean TO \(tensor_overflow\)"),
        ("TO(max_gt=1)", "TO has no parameter 'max_gt': it has none"),
        ("TZ(max_gt=1)", "TZ has no parameter 'max_gt': it has zero_percentage_ge"),
        ("TL", "TL needs at least one of abs_mean_gt, max_gt, min_gt, mean_gt"),
        ("TL(max_gt=abc)", "'max_gt=abc' is no parameter"),
        ("TL(max_gt)", "'max_gt' is no parameter"),
        ("TL(max_gt=1, max_gt=2)", "max_gt is given twice"),
        ("TL(max_gt=nan)", "'max_gt=nan' is no parameter"),
        ("TL(max_gt=1e999)", "TL: max_gt must be a finite number, not inf"),
        ("TZ(zero_percentage_ge=101)", "TZ: zero_percentage_ge must be between 0 and 100, not 101"),
        ("TL(abs_mean_gt=-1)", "TL: abs_mean_gt must be 0 or more, not -1"),
        ("WCL(epsilon=0)", "WCL: epsilon must be greater than 0, not 0"),
        ("SP(window=1.5)", "SP: window must be a whole number from 1 to 1000, not 1.5"),
        ("TR", "TR needs at least one of"),
        ("TR(range_percentage_lt=5)", "needs both range_start_inclusive and range_end_inclusive"),
        ("TR(max_min_gt=1, range_start_inclusive=0)", "needs range_percentage_lt or range_percentage_gt beside it"),
        (
            "TR(range_percentage_lt=5, range_start_inclusive=2, range_end_inclusive=1)",
            "range_start_inclusive must not be greater than range_end_inclusive",
        ),
        ("TR(max_min_lt=0)", "TR: max_min_lt must be greater than 0, not 0"),
        ("TO on", "names no tensors after 'on'"),
        ("TO on a on b", "says 'on' more than once"),
        ("TO on nonsense:*", "there is no kind 'nonsense'"),
        ("GV(abs_mean_lt=1) on weight:*", "GV cannot be set on"),
        ("TO after=-1", "after must be a whole number of 0 or more"),
        ("TO every=0", "every must be a whole number of 1 or more"),
        ("TO every=x", "every must be a whole number"),
        ("TO action=explode", "action must be one of pause, log, dump, pdb"),
        ("TO after=1 after=2", "after is given twice"),
        ('TO name="\\ud800"', "at most 200 printable characters"),
        ("max >", "cannot read 'max >'"),
        ("TO on " + "x" * 6000, "at most 5000 characters"),
    ],
)
def test_a_wrong_watchpoint_is_refused_in_one_sentence(text, complaint):
    with pytest.raises(SpecError, match=complaint) as refused:
        spec.parse(text, 1)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("value", [True, False, "1", None, [1], 1j, float("nan"), float("inf"), 10**400])
def test_a_parameter_must_be_a_finite_number(value):
    with pytest.raises(SpecError, match="TL: max_gt must be a finite number"):
        TensorTooLarge(max_gt=value)


def test_limits_must_be_whole_numbers():
    for wrong in (True, 1.0, "1", -1, 2**60):
        with pytest.raises(SpecError, match="after must be a whole number"):
            TensorTooLarge(max_gt=1).watchpoint(1, after=wrong)


_PARAMETERS = st.floats(0.01, 99.0) | st.sampled_from([1e-9, 1.0, 50.0, 1 / 3])


@settings(deadline=None, max_examples=80, derandomize=True)
@given(data=st.data(), condition=st.sampled_from([*CONDITIONS.values()]))
def test_a_watchpoint_survives_being_written_and_read(data, condition):
    given_ = dict(condition.examples[0].settings)
    for setting in condition.settings:
        if setting.range in ("pos", "abs", "pct") and data.draw(st.booleans()):
            given_[setting.name] = data.draw(_PARAMETERS)
    watchpoint = condition(**given_).watchpoint(
        3,
        on=condition.on,
        name=data.draw(st.text(st.characters(codec="utf-8"), max_size=20).filter(str.isprintable)),
        after=data.draw(st.integers(0, 10**9)),
        every=data.draw(st.integers(1, 100)),
        at_most=data.draw(st.integers(0, 100)),
        in_a_row=data.draw(st.integers(1, 9)),
        action=data.draw(st.sampled_from(["", "pause", "log", "dump", "pdb"])),
    )
    assert spec.parse(spec.to_text(watchpoint), 3) == watchpoint


def test_an_expression_survives_being_written_and_read():
    watchpoint = spec.parse("max > 3 * median(max, 100) and not nan > 0 on activation:* in_a_row=2", 4)
    assert spec.parse(spec.to_text(watchpoint), 4) == watchpoint


@settings(deadline=None, max_examples=150, derandomize=True)
@given(text=st.text(max_size=60) | st.text('TLTO(max_gt=1) on :*,"after=every name\\', max_size=60))
def test_any_text_is_read_or_refused_and_never_anything_else(text):
    try:
        watchpoint = spec.parse(text, 1)
    except SpecError:
        return
    assert spec.parse(spec.to_text(watchpoint), 1) == watchpoint


FILE = """
watch = ["TO on gradient:*", "max > 3 on loss"]

[[watchpoint]]
condition = "TL"
parameters = { max_gt = 100 }
on = "gradient:encoder.*"
after = 3
action = "pause"
name = "large"

[[watchpoint]]
expression = "max > 3 * median(max, 100)"
"""


def test_a_file_of_watchpoints_is_read(tmp_path):
    path = tmp_path / "watch.toml"
    path.write_text(FILE)
    assert spec.load(path, first_id=5) == [
        Watchpoint(5, "TO", on="gradient:*"),
        Watchpoint(6, "EXPR", on="loss", expression="max > 3"),
        Watchpoint(7, "TL", {"max_gt": 100.0}, "gradient:encoder.*", "large", after=3, action="pause"),
        Watchpoint(8, "EXPR", expression="max > 3 * median(max, 100)"),
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("watch = [", "is not TOML"),
        ("a = 1", "'a' is not known"),
        ("watch = 'TO'", "write watch = "),
        ("watch = [3]", "watchpoint 1: a watchpoint is a text or a table"),
        ("watch = ['TO', 'TX']", "watchpoint 2: there is no condition 'TX'"),
        ("[[watchpoint]]\non = '*'", "give either a condition or an expression"),
        ("[[watchpoint]]\ncondition = 3", "condition must be a text"),
        ("[[watchpoint]]\ncondition = 'TO'\ncolour = 3", "'colour' is not known"),
        ("[[watchpoint]]\ncondition = 'TO'\nparameters = 3", "parameters must be a table"),
        ("[[watchpoint]]\ncondition = 'TL'\nparameters = { max_gt = true }", "must be a finite number, not True"),
        ("[[watchpoint]]\nexpression = 'max > 1'\nparameters = { a = 1 }", "an expression has no parameters"),
        ("[[watchpoint]]\ncondition = 'TO'\nafter = true", "after must be a whole number"),
        ("x = " + "[" * 5000, "is not TOML"),
        ("#" + " " * (1 << 20), "larger than"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path, content, complaint):
    path = tmp_path / "watch.toml"
    path.write_text(content)
    with pytest.raises(SpecError, match=complaint) as refused:
        spec.load(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(SpecError, match="cannot read"):
        spec.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="is not TOML"):
        spec.load(tmp_path / "binary.toml")


def test_conditions_of_other_packages_are_found_by_their_entry_point(monkeypatch):
    class Foreign(TensorTooLarge):
        code, name = "FOREIGN", "foreign_condition"

    class Entry:
        def load(self):
            return Foreign

    monkeypatch.setattr(catalogue, "CONDITIONS", dict(CONDITIONS))
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [Entry()] if group == "tensight.conditions" else [])
    assert spec.parse("FOREIGN(max_gt=1)", 1).condition == "FOREIGN"
