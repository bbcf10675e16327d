"""Train and evaluation mixed up; number formats that lose what matters; graphs that are kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tensight.records import Event, Module, Observation, Parameter, Part, Source, StepRecord
from tests.diagnosis.builders import BACKWARD_LINE, LOSS_LINE, STEP_LINE, Layer, Run, nan, stats

DROPOUT = Module("drop", "Dropout", settings={"p": 0.5})
EVAL_LINE = Source("train.py", 16, "model.eval()")


def _forward(run: Run, training: bool) -> list[Event]:
    _, *rest = run.events()
    return [Event("forward", part="net", values={"training": training, "grad": True}), *rest]


def test_training_that_stays_in_evaluation_mode_is_named_since_the_switch() -> None:
    run = Run(modules=[DROPOUT])
    run.learn(10)
    switch = [Event("mode", part="net", values={"node": "", "training": False}, source=EVAL_LINE)]
    for at in range(20):
        run.train(0.4, events=[*(switch if at == 0 else []), *_forward(run, training=False)])
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("eval_mode_in_training", 10)
    assert (finding.where.op, finding.where.line) == ("eval", 16)


def test_evaluation_mode_without_any_module_that_cares_has_no_finding() -> None:
    run = Run()
    for at in range(20):
        run.train(1.4 - at / 20, events=_forward(run, training=False))
    assert run.faults() == []


def test_dropout_that_stays_random_in_evaluation_is_named() -> None:
    run = Run()
    run.learn(5)
    values = {"p": 0.6, "training": True, "module": "", "module_training": False}
    source = Source("train.py", 18, "x = F.dropout(x, p=0.6)")
    run.train(0.4, events=[Event("dropout", part="net", values=values, source=source), *run.events()])
    (finding,) = run.end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("dropout_active_in_eval", 5, 18)


def test_attention_that_drops_weights_in_evaluation_is_told_what_to_pass() -> None:
    run = Run()
    run.learn(5)
    values = {"p": 0.1, "training": True, "module": "attend", "module_training": False}
    values["function"] = "scaled_dot_product_attention"
    source = Source("train.py", 18, "y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)")
    run.train(0.4, events=[Event("dropout", part="net", values=values, source=source), *run.events()])
    (finding,) = run.end()
    assert (finding.fault, finding.where.op) == ("dropout_active_in_eval", "scaled_dot_product_attention")
    assert "dropout_p=0.1 if self.training else 0.0" in finding.fix[0]


def test_batch_norm_over_one_sample_is_named() -> None:
    run = Run()
    for shape in ((1, 8, 4, 4),):
        norm = run.tensor("output", "bn", "output.0", type="BatchNorm2d", shape=shape)
        for _ in range(10):
            seen = run.observations()
            run.train(1.0, observations=[*seen, Observation(norm, 5, stats(1.0), shape=shape)])
    assert run.faults() == ["batchnorm_batch_of_one"]


def test_batch_norm_over_a_small_last_batch_is_fine() -> None:
    run = Run()
    norm = run.tensor("output", "bn", "output.0", type="BatchNorm2d", shape=(8, 8, 4, 4))
    for at in range(10):
        shape = (1, 8, 4, 4) if at == 9 else None
        seen = [*run.observations(), Observation(norm, 5, stats(1.0), shape=shape)]
        run.train(1.4 - at / 20, observations=seen)
    assert run.faults() == []


def test_bfloat16_updates_that_change_nothing_are_lost_to_rounding() -> None:
    layers = [Layer("fc1", dtype="bfloat16"), Layer("fc2", dtype="bfloat16")]
    for layer in layers:
        layer.update = 0.0
    (finding,) = Run(layers, lr=1e-3, optimizer="Adam").stall(30, loss=9.3).end()
    assert (finding.fault, finding.since_step, finding.where.op) == ("bf16_lost_updates", 0, "Adam.step")
    assert "rounding" in finding.why


def _mostly_rounded_away(*, equal: float = 0.8, **values: object) -> Run:
    """A regression in bfloat16; some of each update gets through."""
    layers = [Layer("fc1", dtype="bfloat16"), Layer("fc2", dtype="bfloat16")]
    for layer in layers:
        layer.equal = equal
    run = Run(layers, lr=2e-3, optimizer="Adam")
    run.loss_values = {"function": "mse_loss", "prediction_shape": "32", "target_shape": "32", "target_variance": 2.5}
    run.loss_values |= values
    return run


def test_most_updates_lost_explain_a_network_that_stays_worse_than_guessing() -> None:
    (finding,) = _mostly_rounded_away().learn(260, begin=16.0, end=14.5).end()
    assert (finding.fault, finding.since_step, finding.where.op) == ("bf16_lost_updates", 0, "Adam.step")
    assert "guessing gives 2.5" in finding.why


def test_most_updates_lost_explain_a_network_that_stays_at_guessing_although_labels_are_in_the_inputs() -> None:
    run = _mostly_rounded_away(function="cross_entropy", prediction_shape="32x4", classes=4)
    run.scalars["probe/label_information"] = 0.5
    assert run.stall(260, loss=1.386).faults() == ["bf16_lost_updates"]


def test_most_updates_lost_do_no_harm_where_the_rest_is_enough_to_learn() -> None:
    assert _mostly_rounded_away().learn(260, begin=16.0, end=4.0).faults() == []
    assert _mostly_rounded_away().stall(260, loss=0.4).faults() == []  # was trained before


def test_updates_of_a_rate_that_warms_up_are_small_on_purpose() -> None:
    run = _mostly_rounded_away()
    for at in range(300):
        run.lr = 1e-5 * (at + 1)
        run.train(16.0 - at / 300)
    assert "bf16_lost_updates" not in run.faults()


def _short(end: float, *, equal: float = 0.87, steps: int = 60, warm: bool = False) -> list[str]:
    """A classification by hand: no optimizer, and too short a run to say that it is stuck."""
    run = _mostly_rounded_away(equal=equal, function="cross_entropy", prediction_shape="32x4", classes=4)
    for at in range(steps):
        run.lr = 1e-5 * (at + 1) if warm else 2e-3
        run.train(1.386 + (end - 1.386) * at / (steps - 1))
    return run.faults()


def test_a_short_run_that_ends_at_guessing_while_hardly_anything_of_an_update_comes_through_is_named() -> None:
    assert _short(1.32) == ["bf16_lost_updates"]


def test_a_short_run_that_learns_all_the_same_or_is_hardly_begun_is_fine() -> None:
    assert "bf16_lost_updates" not in _short(0.9)
    assert "bf16_lost_updates" not in _short(1.32, steps=30)
    assert "bf16_lost_updates" not in _short(1.32, warm=True)
    assert "bf16_lost_updates" not in _short(1.32, equal=0.75)


def test_few_updates_lost_explain_nothing() -> None:
    assert "bf16_lost_updates" not in _mostly_rounded_away(equal=0.5).learn(260, begin=16.0, end=14.5).faults()


def test_float16_gradients_that_underflow_without_a_scaler_are_named() -> None:
    layers = [Layer("fc1", dtype="float16"), Layer("fc2", dtype="float16")]
    for layer in layers:
        layer.gradient = stats(1e-8, 256, zero=200)
    assert Run(layers).stall(30).faults() == ["fp16_gradient_underflow"]


def test_gradients_of_an_infinite_loss_do_not_underflow() -> None:
    """MindSpore's kernels make zeros of NaN: the overflow is named, and nothing beside it."""
    layers = [Layer("fc1", dtype="float16"), Layer("fc2", dtype="float16")]
    for layer in layers:
        layer.gradient = stats(0.0, 256, zero=256)
    run = Run(layers)
    for _ in range(30):
        run.train(float("inf"))
    assert "fp16_gradient_underflow" not in run.faults()


def test_underflow_under_autocast_is_placed_where_the_loss_is_not_scaled() -> None:
    run = Run()
    for layer in run.layers:
        layer.gradient = 0.0
    lost = run.tensor("output_gradient", "head", "output.0", dtype="float16")
    for _ in range(30):
        seen = [*run.observations(), Observation(lost, 90, stats(0, 256), "backward")]
        run.train(1.0, observations=seen)
    (finding,) = run.end()
    assert (finding.fault, finding.where.module) == ("fp16_gradient_underflow", "head")
    assert finding.where.code == BACKWARD_LINE.code


@pytest.mark.parametrize(("enabled", "faults"), [(False, ["fp16_gradient_underflow"]), (True, [])])
def test_a_scaler_that_is_switched_off_scales_nothing(enabled: bool, faults: list[str]) -> None:
    layers = [Layer("fc1", dtype="float16"), Layer("fc2", dtype="float16")]
    for layer in layers:
        layer.gradient = stats(1e-8, 256, zero=200)
    run = Run(layers)
    run.engine.part(Part("scaler", "GradScaler", "GradScaler", {"enabled": enabled}))
    assert [fault for fault in run.stall(30).faults() if fault == "fp16_gradient_underflow"] == faults


def _scaled(run: Run, scale: float, overflow: bool, *, clip: bool = False, unscale: bool = False) -> None:
    *first, _ = run.events()
    events = [*first]
    if unscale:
        events.append(Event("unscale", part="SGD"))
    if clip:
        events.append(Event("clip", part="", source=Source("train.py", 30, "clip_grad_norm_(params, 1.0)")))
    events.append(Event("optimizer_step", part="SGD", values={"lr": 0.1, "skipped": overflow}))
    events.append(Event("scale", part="scaler", values={"scale": scale, "overflow": overflow}))
    run.scalars["scale"] = scale
    run.train(1.0, events=events)


def _past_the_scaler(*, unscaled: bool = False, divided: bool = False, runs_away: bool = True) -> Run:
    """The loss is scaled by 1024, and the optimizer steps by itself; what leaves the head has gradients of 0.001."""
    run = Run()
    bias = Parameter("head.bias", (64,), "float32", module="head", optimizer="SGD")
    known = run.engine.case.networks["net"]
    run.engine.network(msgspec.structs.replace(known, parameters=(*known.parameters, bias)))
    run.engine.part(Part("optimizer", "SGD", "SGD", {"lr": 0.1}, None, ("net:head.weight", "net:head.bias")))
    left = run.tensor("output_gradient", "head", "output.0", dtype="float32")
    own = run.tensor("gradient", "head", "bias", dtype="float32")
    for at in range(20):
        first, loss, zero, _, step = run.events()
        backward = Event("backward", part="net", values={"cleared": True, "scale": 1024.0}, source=BACKWARD_LINE)
        taken = [Event("unscale", part="SGD")] if unscaled else []
        size = 0.01 if divided else 0.01 * 1024
        seen = [
            *run.observations(),
            Observation(left, 90, stats(0.001, 32 * 64), "backward"),
            Observation(own, 91, stats(size, 64), "backward"),
        ]
        events = [first, loss, zero, backward, *taken, step]
        run.train(1.4 * 10.0**at if runs_away else 1.4 - at / 20, events=events, observations=seen)
    return run


def test_an_optimizer_that_steps_past_its_scaler_is_named_and_not_its_rate() -> None:
    run = _past_the_scaler()
    (finding,) = run.end()
    assert (finding.fault, finding.category, finding.since_step) == ("gradients_not_unscaled", "precision", 0)
    assert finding.where.code == STEP_LINE.code
    assert "scaler.step" in finding.fix[0]


@pytest.mark.parametrize(
    "run",
    [
        {"unscaled": True},
        {"divided": True},  # by hand
        {"runs_away": False},  # no harm is done: Adam divides by the size of its gradients again
    ],
)
def test_updates_by_gradients_that_were_unscaled_or_do_no_harm_are_left_alone(run: dict[str, Any]) -> None:
    assert "gradients_not_unscaled" not in _past_the_scaler(**run).faults()


def test_a_scale_that_only_falls_is_named() -> None:
    run = Run()
    for at in range(20):
        _scaled(run, 65536.0 / 2**at, True)
    assert run.faults() == ["loss_scale_keeps_falling"]


def _left_out(steps: int, scale: float = 65536.0) -> Run:
    """All updates are left out, and the scale is halved each time."""
    run = Run()
    run.layers[0].gradient = nan(256)
    for layer in run.layers:
        layer.update = 0.0
    for at in range(steps):
        _scaled(run, scale / 2 ** (at + 1), True)
    return run


def test_what_makes_gradients_bad_at_every_scale_is_named_since_the_first_update_that_was_left_out() -> None:
    run = _left_out(20)
    bad = run.engine.case.trouble.left_out
    assert bad is not None
    assert (bad.step, bad.began, run.engine.case.trouble.first) == (11, 0, None)
    line = Source("train.py", 25, "return d.pow(2).sum(-1).sqrt()")
    facts = {"in.0.zero": 8, "in.0.count": 64, "in.0.min": 0.0, "in.0.max": 4.0, "node": "SqrtBackward0", "bad_nan": 8}
    run.replay("aten.sqrt", bad.step, phase="backward", source=line, facts=facts)
    (finding,) = run.end()
    assert (finding.fault, finding.category, finding.since_step) == ("sqrt_zero_gradient", "numeric-nonfinite", 0)
    assert finding.where.line == 25
    assert "loss scale keeps falling" in finding.why


def test_without_a_look_at_the_operator_the_scale_is_what_is_named() -> None:
    assert _left_out(20).faults() == ["loss_scale_keeps_falling"]


@pytest.mark.parametrize(("steps", "scale"), [(11, 65536.0), (20, 2.0**40)])
def test_a_scale_that_has_yet_to_find_its_size_is_no_trouble(steps: int, scale: float) -> None:
    assert _left_out(steps, scale).engine.case.trouble.left_out is None


def test_clipping_of_scaled_gradients_is_named_at_its_line() -> None:
    run = Run()
    for _ in range(10):
        _scaled(run, 1024.0, False, clip=True)
    (finding,) = run.end()
    assert (finding.fault, finding.where.line) == ("clip_before_unscale", 30)


def test_clipping_after_unscale_is_fine() -> None:
    run = Run()
    for _ in range(10):
        _scaled(run, 1024.0, False, clip=True, unscale=True)
    assert run.faults() == []


def test_graphs_that_pile_up_are_named_where_their_losses_are_made() -> None:
    run = Run()
    for at in range(20):
        run.scalars["graphs_alive"] = 40.0 * at
        run.train(1.4 - at / 20)
    (finding,) = run.end()
    assert finding.fault == "graph_retained_by_accumulation"
    assert finding.where.line == LOSS_LINE.line


def test_an_evaluation_after_the_last_step_is_evidence_too() -> None:
    run = Run()
    run.learn(8)
    values = {"p": 0.6, "training": True, "module": "", "module_training": False}
    after = Event("dropout", part="net", values=values, source=Source("train.py", 18))
    run.engine.rest(StepRecord(8, 0.0, 0.1, events=(after,)))
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("dropout_active_in_eval", 8)


def kept_scale(**settings: float) -> Run:
    run = Run(settings=settings)
    line = Source("train.py", 30, "opt(grads)")
    for _ in range(10):
        run.train(1.0, events=[*run.events(), Event("still_scaled", part="SGD", values={"scale": 512.0}, source=line)])
    return run


def test_gradients_that_still_hold_the_scale_are_named_at_the_update() -> None:
    (finding,) = kept_scale().end()
    assert (finding.fault, finding.where.line) == ("gradients_not_unscaled", 30)
    assert "512 times" in finding.why


def test_an_optimizer_that_divides_by_their_size_is_left_in_peace() -> None:
    assert kept_scale(beta2=0.999).faults() == []
