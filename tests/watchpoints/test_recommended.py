"""The recommended set: what it says, and what it knows to be healthy."""

from __future__ import annotations

import math

import pytest

from tensight.records import Change, Observation, Stats, Within
from tensight.watchpoints import recommended, spec
from tensight.watchpoints.checker import Checker
from tests.watchpoints.records import NAN, ZEROS, Training, plain, sized, tensor, updated


def training(*infos) -> Training:
    return Training(Checker(recommended.watchpoints()), *infos)


def codes(hits) -> list[str]:
    assert all(hit.recommended and hit.name for hit in hits)
    return [hit.condition for hit in hits]


def test_the_set_is_what_the_documentation_says():
    found = {(watchpoint.condition, tuple(watchpoint.parameters.items())) for watchpoint in recommended.watchpoints()}
    assert {code for code, _ in found} == {"WI", "WCL", "WNC", "GV", "TO", "OO", "TZ", "AR"}
    assert ("WCL", (("abs_mean_update_ratio_gt", 1.0), ("epsilon", 1e-9))) in found
    assert ("GV", (("abs_mean_lt", 1e-9),)) in found
    assert ("TZ", (("zero_percentage_ge", 100.0),)) in found
    ranges = {values[-1][1]: values for code, values in found if code == "AR"}
    assert math.tanh(8.8) in ranges
    assert 1 / (1 + math.exp(-16.2)) in ranges
    assert ranges[0.0][0] == ("range_percentage_gt", 99.9)
    assert recommended.watchpoints(5)[0].id == 5
    assert all(watchpoint.recommended and not watchpoint.action for watchpoint in recommended.watchpoints())


def test_every_watchpoint_of_the_set_survives_being_written_and_read():
    for watchpoint in recommended.watchpoints():
        again = spec.parse(spec.to_text(watchpoint), watchpoint.id)
        assert (again.parameters, again.on, again.in_a_row) == (
            watchpoint.parameters,
            watchpoint.on,
            watchpoint.in_a_row,
        )


def test_nan_is_said_for_every_tensor_and_its_origin_once():
    hits = training(tensor(1, node="a"), tensor(2, node="b"), tensor(3, "loss", "", "loss")).step(NAN, NAN, NAN)
    assert [(hit.tensor, hit.condition) for hit in hits] == [(1, "TO"), (1, "OO"), (2, "TO"), (3, "TO")]


def test_dead_and_saturated_activations_are_said():
    for type_, code in (("ReLU", "AR"), ("relu", "AR"), ("LeakyReLU", "AR"), ("Tanh", "AR"), ("Sigmoid", "AR")):
        info = tensor(1, "activation", type=type_)
        trained = training(info)
        ((start, end),) = trained.checker.needs(info).ranges
        inside = 100 if "relu" in type_.lower() else 0
        stats = plain(within=(Within(start, end, inside),))
        assert codes(trained.step(stats)) == [code], type_
        assert trained.step(plain(within=(Within(start, end, 50),))) == []
    assert (
        training(tensor(1, "activation", type="GELU")).checker.needs(tensor(1, "activation", type="GELU")).ranges == ()
    )


def test_a_weight_that_starts_at_zero_is_said_before_the_first_update():
    assert "WI" in codes(training(tensor(kind="weight")).step(ZEROS))


def test_a_weight_that_jumps_is_said():
    assert codes(training(tensor(kind="weight")).step(updated(2.0, before=0.5))) == ["WCL"]


def test_a_weight_with_a_gradient_that_does_not_change_is_said_after_five_steps():
    trained = training(tensor(1, "gradient"), tensor(2, "weight"))
    still = updated(0.0, moved=0, equal=100)
    assert [codes(trained.step(plain(), still)) for _ in range(6)] == [[], [], [], [], ["WNC"], ["WNC"]]


def test_a_gradient_that_vanishes_while_others_are_there_is_said():
    trained = training(tensor(1, "gradient", "first"), tensor(2, "gradient", "last"))
    hits = trained.step(sized(1e-12), sized(1e-2))
    assert [(hit.tensor, hit.condition) for hit in hits] == [(1, "GV")]


def test_a_gradient_of_zeros_is_said_after_three_steps():
    trained = training(tensor(1, "gradient"))
    trained.steps = 1
    assert [codes(trained.step(ZEROS)) for _ in range(4)] == [[], [], ["TZ"], ["TZ"]]


@pytest.mark.parametrize("slot", ["input.0", "output.0", "output.logits", "output.0.1", "input.pixel_values"])
def test_inputs_and_outputs_of_zeros_are_said(slot):
    assert codes(training(tensor(1, slot.partition(".")[0], "", slot)).step(ZEROS)) == ["TZ"]


MASKED = Stats(count=100, neg_inf=50, zero=50, min=0.0, max=0.0, mean=0.0, abs_mean=0.0)

HEALTHY = {
    "a zero bias at the start": (tensor(kind="weight", slot="bias", shape=(100,)), ZEROS),
    "a norm's shift at the start": (tensor(kind="weight", slot="beta", shape=(100,)), ZEROS),
    "a norm's scale that starts at zero": (tensor(kind="weight", shape=(100,), type="BatchNorm2d"), ZEROS),
    "the zero half of a low-rank pair": (tensor(kind="weight", node="q.lora_B.default"), ZEROS),
    "a class token of zeros": (tensor(kind="weight", slot="cls_token", shape=(1, 1, 100)), ZEROS),
    "a residual gate that starts at zero": (
        tensor(kind="weight", slot="alpha", shape=()),
        Stats(count=1, zero=1, min=0.0, max=0.0, mean=0.0, abs_mean=0.0),
    ),
    "a bias that leaves zero": (tensor(kind="weight", slot="bias", shape=(100,)), updated(0.1, before=0.0)),
    "a small weight under a small step": (tensor(kind="weight"), updated(1e-3, before=1e-4)),
    "a weight of one value that passes through zero": (
        tensor(kind="weight", shape=(1, 1)),
        Stats(1, positive=1, min=0.02, max=0.02, mean=0.02, abs_mean=0.02, change=Change(1, 0.02, 0.02, 1e-4, 1, 0)),
    ),
    "running means of zero": (tensor(kind="buffer", slot="running_mean"), ZEROS),
    "a counter": (tensor(kind="buffer", slot="num_batches_tracked", dtype="int64", shape=()), ZEROS),
    "a causal mask": (tensor(kind="buffer", node="attn", slot="mask"), MASKED),
    "a mask that is given": (tensor(kind="module_input", node="layer", slot="input.1"), MASKED),
    "masked attention scores": (tensor(kind="operator", node="layer.attn", op="aten.add"), MASKED),
    "a masked fill": (tensor(kind="operator", op="aten.masked_fill"), MASKED),
    "labels of one class": (tensor(kind="target", slot="target.0", dtype="int64"), ZEROS),
    "tokens of padding": (tensor(kind="input", slot="input.0", dtype="int64"), ZEROS),
    "a first state of a recurrent layer": (tensor(kind="input", slot="input.1"), ZEROS),
    "a last state of a recurrent layer": (tensor(kind="output", slot="output.1.0"), ZEROS),
    "an additive mask that hides nothing": (tensor(kind="input", slot="input.attention_mask"), ZEROS),
    "an output of dropout": (tensor(kind="output", type="Dropout"), ZEROS),
    "a loss that is met": (tensor(kind="loss", slot="loss"), ZEROS),
    "a few units that are off": (
        tensor(kind="output"),
        Stats(count=4, zero=4, min=0.0, max=0.0, mean=0.0, abs_mean=0.0),
    ),
    "a first gradient behind a zero layer": (tensor(kind="gradient"), ZEROS),
    "gradients that are all small": (tensor(kind="gradient"), sized(1e-11)),
    "a sparse gradient of an embedding": (
        tensor(kind="gradient"),
        plain(zero=99, positive=1, negative=0, abs_mean=9e-10),
    ),
    "a frozen part": (tensor(kind="frozen"), ZEROS),
    "an empty tensor": (tensor(kind="output"), Stats(count=0)),
    "a weight without an earlier value": (tensor(kind="weight"), plain()),
}


@pytest.mark.parametrize("case", sorted(HEALTHY))
def test_healthy_training_is_left_in_peace(case):
    info, stats = HEALTHY[case]
    trained = training(info)
    assert trained.step(stats) == []
    if case != "a first gradient behind a zero layer":
        assert [hit for _ in range(6) for hit in trained.step(stats)] == []


def test_a_log_of_zero_is_not_taken_for_a_mask():
    assert set(codes(training(tensor(kind="operator", node="attn", op="aten.log")).step(MASKED))) == {"TO", "OO"}
    assert set(codes(training(tensor(kind="output", node="head")).step(MASKED))) == {"TO", "OO"}


def test_a_key_bias_whose_gradient_is_rounding_noise_is_left_in_peace():
    infos = (tensor(1, "gradient", "attn.k", "bias", shape=(100,)), tensor(2, "gradient", "attn.k"))
    assert training(*infos).step(sized(1e-11), sized(1e-3)) == []


def test_an_unused_head_is_left_in_peace():
    trained = training(tensor(1, "weight", "unused"), tensor(2, "weight", "off"), tensor(3, "gradient", "off"))
    still = updated(0.0, moved=0, equal=100)
    hits = [hit for _ in range(9) for hit in trained.step(still, still, ZEROS)]
    assert {hit.condition for hit in hits} <= {"TZ"}
    assert {hit.tensor for hit in hits} <= {3}


def test_a_weight_that_moves_by_less_than_the_tolerance_is_left_in_peace():
    trained = training(tensor(1, "gradient"), tensor(2, "weight"))
    slow = updated(1e-7, moved=0, equal=5)
    assert [hit for _ in range(9) for hit in trained.step(plain(), slow)] == []


def test_an_overflow_that_a_loss_scaler_caught_is_left_in_peace():
    trained = training(tensor(1, "output_gradient"), tensor(2, "gradient"), tensor(3, "weight"))
    still = updated(0.0, moved=0, equal=100)
    assert [hit for _ in range(9) for hit in trained.step(NAN, NAN, still, scaler_skipped=True)] == []
    assert codes(trained.step(NAN, NAN, updated())) == ["TO", "OO", "TO"]


def test_a_users_own_watchpoint_is_never_second_guessed():
    checker = Checker([spec.parse("TO on *", 1), spec.parse("TZ on *", 2), spec.parse("WI on *", 3)])
    trained = Training(checker, tensor(1, "weight", slot="bias", shape=(100,)), tensor(2, "buffer", "attn", "mask"))
    assert [(hit.tensor, hit.condition) for hit in trained.step(ZEROS, MASKED)] == [
        (1, "TZ"),
        (1, "WI"),
        (2, "TO"),
        (2, "TZ"),
    ]


def test_hits_of_a_broken_run_are_bounded():
    trained = training(*(tensor(id, node=f"n{id}") for id in range(1, 31)))
    counts = [len(trained.step(*[NAN] * 30)) for _ in range(60)]
    assert sum(counts) < 30 * 60
    assert counts[-1] <= 1


def test_a_tensor_that_cannot_be_judged_is_listed_by_the_set_too():
    hits = training(tensor(dtype="strange")).step(Observation(1, 0, Stats(count=1), error="dtype"))
    assert {hit.error for hit in hits} == {"dtype"}
