"""What the checker makes of observations."""

from __future__ import annotations

import msgspec
import pytest

from tensight.errors import NameNotFound, SpecError
from tensight.records import Needs, Observation, Source, Stats, Watchpoint
from tensight.watchpoints import spec
from tensight.watchpoints.catalogue import CONDITIONS, TensorOverflow, register
from tensight.watchpoints.checker import Checker
from tensight.watchpoints.condition import QUIET, Condition, Verdict
from tensight.watchpoints.recheck import recheck
from tests.watchpoints.records import NAN, ZEROS, Training, plain, sized, tensor, updated


def watching(*texts: str, **more) -> Checker:
    return Checker([spec.parse(text, id) for id, text in enumerate(texts, 1)], **more)


def test_a_hit_says_where_what_and_what_was_set():
    source = Source("train.py", 31, "torch.sqrt(x)")
    info = tensor(7, "output", "head.scale", op="aten.sqrt", source=source, network="net")
    training = Training(watching("TL(max_gt=1.5, abs_mean_gt=9) on head"), info)
    (hit,) = training.step(plain(), rank=3)
    assert (hit.step, hit.rank, hit.watchpoint, hit.condition) == (0, 3, 1, "TL")
    assert (hit.kind, hit.node, hit.slot, hit.tensor, hit.network) == ("output", "head.scale", "output.0", 7, "net")
    assert (hit.actual, hit.threshold, hit.error) == ({"max_gt": 2.0}, {"max_gt": 1.5}, None)
    assert (hit.op, hit.source) == ("aten.sqrt", source)
    assert hit.name == "TL(abs_mean_gt=9, max_gt=1.5) on head"
    assert not hit.recommended


def test_a_hit_says_which_call_of_a_module_it_was():
    info = tensor(7, "output", "encoder.0", call=1)
    (hit,) = Training(watching("TL(max_gt=1.5) on *"), info).step(plain())
    assert (hit.node, hit.call, hit.place) == ("encoder.0", 1, "encoder.0#1")


def test_hits_come_in_order_of_execution_then_of_watchpoints():
    infos = [tensor(id, node=f"n{id}") for id in (1, 2, 3)]
    checker = watching("TO on *", "nan > 0 on *")
    seen = [Observation(3, 5, NAN), Observation(1, 9, NAN), Observation(2, 1, NAN)]
    hits = checker.check(0, seen, {info.id: info for info in infos}, updates=0)
    assert [(hit.tensor, hit.watchpoint) for hit in hits] == [(2, 1), (2, 2), (3, 1), (3, 2), (1, 1), (1, 2)]


def test_values_that_are_not_finite_are_left_out_and_counted():
    (hit,) = Training(watching("TL(mean_gt=0.5) on *"), tensor()).step(NAN)
    assert hit.note == "judged on the finite 97 of 100 values (3 NaN)"


@pytest.mark.parametrize(
    ("stats", "code"), [(Stats(count=0), "no_value"), (Stats(9, 9), "nan"), (Stats(9, 0, 4, 5), "inf")]
)
def test_what_has_no_value_is_listed_with_a_code_and_is_no_hit(stats, code):
    training = Training(watching("TZ on *"), tensor())
    (listed,) = training.step(stats)
    assert (listed.error, listed.actual) == (code, {})
    assert training.step(stats) == []  # said once, not in every step


def test_no_earlier_value_is_said_once_and_stops_nothing():
    training = Training(watching("WNC on *", "WCL on *", "WCS on *", "WO on *"), tensor(kind="weight"))
    assert [(hit.condition, hit.error) for hit in training.step(plain())] == [
        ("WNC", "no_prev"),
        ("WCL", "no_prev"),
        ("WCS", "no_prev"),
    ]
    assert training.step(plain()) == []
    assert [hit.condition for hit in training.step(updated(0.5))] == ["WCL"]


def test_a_weight_seen_before_and_after_the_step_is_judged_by_what_the_step_did():
    training = Training(watching("WNC on *"), tensor(kind="weight"))
    before, after = Observation(1, 0, plain()), Observation(1, 9, updated(0.0, moved=0, equal=100), "update")
    hits = training.checker.check(0, [before, after], training.tensors, updates=0)
    assert [(hit.condition, hit.error, hit.order) for hit in hits] == [("WNC", None, 9)]


def test_another_shape_or_dtype_than_before_is_said():
    training = Training(watching("WCL on *"), tensor(kind="weight", shape=(4, 4)))
    assert training.step(updated()) == []
    (hit,) = training.step(Observation(1, 0, plain(), shape=(5, 4)))
    assert (hit.error, hit.note) == ("shape", "shape was (4, 4) and is (5, 4)")
    training.tensors[1] = tensor(kind="weight", shape=(5, 4), dtype="bfloat16")
    (hit,) = training.step(plain())
    assert (hit.error, hit.note) == ("dtype", "dtype was float32 and is bfloat16")
    assert training.step(updated()) == []


def test_a_tensor_that_could_not_be_looked_at_is_listed_for_each_watchpoint_on_it():
    training = Training(watching("TO on *", "TZ on weight:*", "TZ on *"), tensor(dtype="quint4x2"))
    hits = training.step(Observation(1, 0, Stats(count=4), error="dtype"))
    assert [(hit.watchpoint, hit.error, hit.note) for hit in hits] == [
        (1, "dtype", "its dtype cannot be judged"),
        (3, "dtype", "its dtype cannot be judged"),
    ]
    assert training.step(Observation(1, 0, Stats(count=4), error="dtype")) == []
    (other, _) = training.step(Observation(1, 0, Stats(count=4), error="unheard of"))
    assert other.error == "failed"


def test_a_tensor_is_judged_once_per_watchpoint_and_step():
    checker = watching("TO on *")
    seen = [Observation(1, 0, plain()), Observation(1, 1, NAN, micro=1), Observation(1, 2, NAN, micro=2)]
    hits = checker.check(0, seen, {1: tensor()}, updates=0)
    assert [hit.order for hit in hits] == [1]
    assert len(checker.check(1, seen, {1: tensor()}, updates=1)) == 1


def test_after_every_and_at_most_limit_a_watchpoint():
    training = Training(watching("TO on * after=2 every=3 at_most=3"), tensor())
    assert [hit.step for _ in range(20) for hit in training.step(NAN)] == [2, 5, 8]


def test_in_a_row_counts_the_steps_in_which_it_was_asked():
    training = Training(watching("TO on * in_a_row=3"), tensor())
    seen = [NAN, NAN, plain(), NAN, NAN, NAN, NAN, plain(), NAN]
    assert [hit.step for stats in seen for hit in training.step(stats)] == [5, 6]
    training = Training(watching("TO on * in_a_row=2 every=2"), tensor())
    assert [hit.step for stats in [NAN, plain(), NAN, plain(), NAN] for hit in training.step(stats)] == [2, 4]


def test_in_a_row_takes_any_of_the_observations_of_a_step():
    checker, infos = watching("TO on * in_a_row=2"), {1: tensor()}
    seen = [Observation(1, 0, plain()), Observation(1, 1, NAN), Observation(1, 2, plain())]
    assert [len(checker.check(step, seen, infos, updates=step)) for step in range(3)] == [0, 1, 1]


def test_initial_weights_are_judged_only_before_the_first_update():
    training = Training(watching("WI on *"), tensor(kind="weight"))
    assert [hit.condition for hit in training.step(ZEROS, updates=0)] == ["WI"]
    assert training.step(ZEROS, updates=1) == []


def test_initial_zeros_are_seen_although_the_weight_was_observed_after_the_first_step():
    training = Training(watching("WI on *"), tensor(kind="weight"))
    (hit,) = training.step(updated(0.1, before=0.0), updates=0)
    assert hit.actual == {"zero_percentage_ge": 100.0}


def test_conditions_on_history_see_the_steps_before():
    training = Training(watching("max > 3 * median(max, 100) on *"), tensor())
    assert [hit for _ in range(9) for hit in training.step(sized(1.0))] == []
    (hit,) = training.step(sized(4.0))
    assert hit.actual == {"max > 3 * median(max, 100)": 4.0}
    assert hit.threshold == {"max > 3 * median(max, 100)": 3.0}


def test_history_and_counts_survive_a_change_of_other_watchpoints():
    training = Training(watching("SP(times_gt=5) on *", "TO on * at_most=1"), tensor())
    for _ in range(9):
        training.step(sized(1.0))
    assert len(training.step(NAN)) == 1
    training.checker.add(spec.parse("TZ on *", 9))
    assert [hit.condition for hit in training.step(sized(20.0))] == ["SP"]
    assert training.step(NAN) == []


def test_adding_removing_and_replacing_change_the_version_and_the_verdicts():
    training = Training(watching("TO on *"), tensor())
    version = training.checker.version
    training.checker.add(TensorOverflow().watchpoint(2, on="weight:*"))
    assert len(training.step(NAN)) == 1
    training.checker.replace(TensorOverflow().watchpoint(2))
    assert len(training.step(NAN)) == 2
    training.checker.remove(1)
    assert [hit.watchpoint for hit in training.step(NAN)] == [2]
    assert training.checker.version == version + 3
    assert [watchpoint.id for watchpoint in training.checker.watchpoints] == [2]
    training.checker.replace(msgspec.structs.replace(TensorOverflow().watchpoint(2), enabled=False))
    assert training.step(NAN) == []


def test_wrong_ids_and_watchpoints_are_refused():
    checker = watching("TO on *")
    with pytest.raises(SpecError, match="there is a watchpoint 1 already"):
        checker.add(TensorOverflow().watchpoint(1))
    for change in (lambda: checker.remove(5), lambda: checker.replace(TensorOverflow().watchpoint(5))):
        with pytest.raises(NameNotFound, match="no watchpoint 5"):
            change()
    with pytest.raises(SpecError):
        checker.add(Watchpoint(2, "TL", {"max_gt": float("nan")}))


def test_needs_are_the_union_of_what_watchpoints_ask_of_a_tensor():
    bounds = "range_start_inclusive=0, range_end_inclusive=1"
    checker = watching(
        f"AR(range_percentage_lt=1, {bounds}) on *",
        f"TR(range_percentage_gt=1, {bounds}) on *",
        "TR(range_percentage_gt=1, range_start_inclusive=-1, range_end_inclusive=1) on *",
        "WNC(rtol=0.5, atol=0.25) on *",
    )
    assert checker.needs(tensor(1, "activation")) == Needs(ranges=((0.0, 1.0), (-1.0, 1.0)))
    assert checker.needs(tensor(2, "weight")) == Needs(((0.0, 1.0), (-1.0, 1.0)), True, 0.5, 0.25)
    checker.add(spec.parse("WCL on *", 9))
    assert checker.needs(tensor(2, "weight")).rtol == 0.5
    checker.remove(4)
    assert checker.needs(tensor(2, "weight")) == Needs(((0.0, 1.0), (-1.0, 1.0)), True)


def test_a_users_tolerances_win_over_those_of_the_recommended_set():
    checker = Checker([spec.parse("WNC on *", 1)])
    checker.replace(msgspec.structs.replace(checker.watchpoints[0], recommended=True))
    checker.add(spec.parse("WNC(rtol=0.5) on *", 2))
    assert checker.needs(tensor(kind="weight")).rtol == 0.5


def test_tolerances_that_were_not_counted_are_said_unless_the_count_decides():
    loose, tight = "WNC(rtol=1e-3, atol=1e-3) on *", "WNC(rtol=1e-9, atol=1e-9) on *"
    weight = tensor(kind="weight")
    assert [hit.watchpoint for hit in Training(watching(loose), weight).step(updated(1e-9, moved=0))] == [1]
    assert Training(watching(tight), weight).step(updated(1e-3, moved=5)) == []
    (hit,) = Training(watching("WNC(rtol=1e-9, atol=1e-10) on *"), weight).step(updated(1e-9, moved=0))
    assert (hit.error, hit.note) == ("no_value", "the change was counted with rtol 1e-05 and atol 1e-08")


def test_the_largest_change_decides_an_absolute_tolerance_that_was_not_counted():
    weight = tensor(kind="weight")
    for spec_, change, error in (
        ("WNC(rtol=0, atol=1e-2) on *", updated(1e-3, moved=5), [None]),
        ("WNC(rtol=0, atol=1e-4) on *", updated(1e-3, moved=5), []),
        ("WNC(rtol=0, atol=1e-12) on *", updated(1e-9, moved=0), []),
        ("WNC(rtol=0.1, atol=1e-2) on *", updated(1e-3, moved=5), [None]),
        ("WNC(rtol=0.1, atol=1e-4) on *", updated(1e-3, moved=5), ["no_value"]),
    ):
        assert [hit.error for hit in Training(watching(spec_), weight).step(change)] == error, spec_


class Failing(Condition):
    code, name, title = "FAILS", "failing", "Failing"
    finds = matters = "It fails."
    causes = try_ = ("A test.",)
    examples = ()

    def judge(self, now, history, info):
        raise ZeroDivisionError("in the condition")


class FailingGate(Failing):
    code, name = "FAILSEARLY", "failing_early"

    def judge(self, now, history, info):
        return QUIET

    def gate(self, info):
        return lambda stats: 1 / 0


@pytest.mark.parametrize("condition", [Failing, FailingGate])
def test_an_error_in_a_condition_is_reported_once_and_stops_nothing_else(condition, monkeypatch):
    monkeypatch.setitem(CONDITIONS, condition.code, condition)
    reported = []
    checker = watching(
        "TO on *", f"{condition.code} on *", "nan > 0 on *", on_error=lambda *report: reported.append(report)
    )
    training = Training(checker, tensor(1, node="a"), tensor(2, node="b"))
    listed = training.step(NAN, NAN)
    assert [hit.watchpoint for hit in listed if hit.error is None] == [1, 3, 1, 3]
    errors = [(hit.tensor, hit.watchpoint) for hit in listed if hit.error == "failed"]
    assert errors == ([(1, 2), (2, 2)] if condition is Failing else [])
    assert len(training.step(NAN, NAN)) == 4
    ((where, error),) = reported
    assert where == f"watchpoint 2 ({condition.code})"
    assert isinstance(error, ZeroDivisionError)


def test_an_error_in_the_report_of_an_error_reaches_nobody(monkeypatch):
    monkeypatch.setitem(CONDITIONS, "FAILS", Failing)

    def broken(where, error):
        raise RuntimeError("the report fails too")

    (hit,) = Training(watching("FAILS on *", on_error=broken), tensor()).step(plain())
    assert (hit.error, hit.note) == ("failed", "ZeroDivisionError: in the condition")


def test_an_observation_of_an_unknown_tensor_is_reported_once_and_left_out():
    reported = []
    checker = watching("TO on *", on_error=lambda *report: reported.append(report))
    for step in range(3):
        assert checker.check(step, [Observation(99, 0, NAN)], {}, updates=step) == []
    assert len(reported) == 1


def test_an_operator_is_blamed_only_where_what_went_in_was_finite():
    ops = [tensor(id, "operator", f"n{id}", op="mul") for id in (1, 2, 3)]
    training = Training(watching("OO on *"), *ops)
    assert [hit.tensor for hit in training.step(plain(), NAN, NAN)] == [2]
    assert [hit.tensor for hit in training.step(NAN, plain(), NAN)] == [1]


def test_no_operator_is_blamed_while_a_weight_is_bad():
    training = Training(watching("OO on *"), tensor(1, "output", "a"), tensor(2, "weight", "a"))
    assert [hit.tensor for hit in training.step(plain(), NAN)] == []
    assert [hit.tensor for hit in training.step(NAN, NAN)] == []
    assert [hit.tensor for hit in training.step(None, plain())] == []  # a checkpoint was loaded
    assert [hit.tensor for hit in training.step(NAN, plain())] == [1]


def test_a_module_with_finite_inputs_is_blamed_although_others_went_wrong_before():
    infos = [tensor(1, "output", "a"), tensor(2, "module_input", "b"), tensor(3, "output", "b")]
    training = Training(watching("OO on *"), *infos)
    assert [hit.tensor for hit in training.step(NAN, plain(), NAN)] == [1, 3]
    assert [hit.tensor for hit in training.step(NAN, NAN, NAN)] == [1]


def test_a_mask_before_an_operator_does_not_take_the_blame():
    infos = [tensor(1, "operator", "attn", op="aten.masked_fill"), tensor(2, "operator", "head", op="aten.log")]
    masked = Stats(count=100, neg_inf=50, positive=50, min=1.0, max=1.0, mean=1.0, abs_mean=1.0)
    hits = Training(watching("OO on operator:head"), *infos).step(masked, NAN)
    assert [hit.tensor for hit in hits] == [2]


def test_a_gradient_is_judged_against_its_weight():
    infos = [tensor(1, "gradient", "a"), tensor(2, "weight", "a"), tensor(3, "weight", "b")]
    training = Training(watching("GW(ratio_gt=10) on *", "UL on *"), *infos)
    hits = training.step(sized(5.0), updated(0.0, moved=0, equal=100, abs_mean=0.1), None)
    assert [(hit.tensor, hit.condition, hit.error) for hit in hits] == [(1, "GW", None), (2, "UL", None)]
    (listed,) = training.step(None, None, updated())
    assert (listed.condition, listed.error) == ("UL", "no_value")


def test_a_star_means_what_the_condition_is_for_and_a_kind_widens_it():
    infos = [tensor(1, "gradient"), tensor(2, "output_gradient"), tensor(3, "weight"), tensor(4, "frozen")]
    assert [hit.tensor for hit in Training(watching("GE on *"), *infos).step(NAN, NAN, NAN, NAN)] == [1]
    both = Training(watching("GE on gradient:*, gradient:activation"), *infos)
    assert [hit.tensor for hit in both.step(NAN, NAN, NAN, NAN)] == [1, 2]
    assert [hit.tensor for hit in Training(watching("WO on *"), *infos).step(NAN, NAN, NAN, NAN)] == [3]
    wide = Training(watching("WO on parameter:*"), *infos)
    assert [hit.tensor for hit in wide.step(NAN, NAN, NAN, NAN)] == [3, 4]


def test_recheck_judges_again_without_limits_and_with_history():
    watchpoints = [spec.parse("TO on * after=100", 1), spec.parse("max > 2 * mean(max, 5) on * in_a_row=9", 2)]
    infos = {1: tensor()}
    earlier = [(step, [Observation(1, 0, sized(1.0))]) for step in range(3)]
    now = [Observation(1, 0, sized(9.0))]
    hits = recheck(watchpoints, 3, now, infos, updates=3, earlier=earlier)
    assert [hit.watchpoint for hit in hits] == [2]
    assert recheck(watchpoints, 3, now, infos, updates=3) == []
    assert [hit.watchpoint for hit in recheck(watchpoints, 3, [Observation(1, 0, NAN)], infos, updates=3)] == [1]


def test_a_condition_of_your_own_is_registered_and_watched(monkeypatch):
    monkeypatch.setattr("tensight.watchpoints.catalogue.CONDITIONS", dict(CONDITIONS))

    @register
    class Lopsided(Condition):
        code, name, title = "LOP", "lopsided", "Lopsided"
        finds = matters = "All values have one sign."
        causes = try_ = ("A test.",)
        examples = ()

        def judge(self, now, history, info):
            return Verdict({"negative": (now.negative, None)}) if now.negative == now.finite else QUIET

    (hit,) = Training(watching("LOP on *"), tensor()).step(plain(negative=100, positive=0))
    assert hit.actual == {"negative": 100}
    with pytest.raises(SpecError, match="the code LOP is taken"):

        @register
        class Other(Lopsided):
            pass


def test_without_watchpoints_there_is_nothing_to_say():
    assert Training(Checker(), tensor()).step(NAN) == []
