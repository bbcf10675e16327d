"""What a training leaves out without a word: samples, labels, updates, outputs. Each is named, look-alikes are not."""

from __future__ import annotations

import pytest

from tensight.records import Event, Module, Observation, Part, Source, StepRecord, TensorInfo
from tests.diagnosis.builders import BACKWARD_LINE, LOSS_LINE, Layer, Run, stats

LOADER_LINE = Source("train.py", 5, "loader = DataLoader(data, batch_size=30, sampler=sampler)")


def drawn(distinct: int, promised: int, *, weighed: int | None = None, restarts: bool = False) -> Run:
    run = Run()
    settings = {"batch_size": 30, "sampler": "WeightedRandomSampler", "samples": 900, "sampled": promised}
    if weighed is not None:
        settings["weighed"] = weighed
    run.engine.part(Part("loader", "DataLoader", "DataLoader", settings, LOADER_LINE))
    for at in range(40):
        values = {"index": 0 if restarts else at, "drawn": 30 * (at + 1), "distinct": min(distinct, 30 * (at + 1))}
        run.train(1.0 - 0.02 * at, events=[Event("batch", part="DataLoader", values=values), *run.events()])
    return run


def test_a_sampler_with_a_weight_for_each_class_draws_the_first_samples_only() -> None:
    (finding,) = drawn(4, 900, weighed=4).end()
    assert (finding.fault, finding.where.line, finding.where.op) == ("few_distinct_samples", 5, "DataLoader")
    assert "4 weights for 900 samples" in finding.why


def test_labels_that_are_alike_since_few_samples_are_drawn_are_no_cause_of_their_own() -> None:
    run = drawn(4, 900, weighed=4)
    assert run.loss_values is not None
    run.loss_values |= {"alike": 3000, "target_distinct": 1, "target_max": 0, "prediction_layer": "addmm"}
    for at in range(40):
        values = {"index": at, "drawn": 1200 + 30 * at, "distinct": 4}
        run.train(0.1, events=[Event("batch", part="DataLoader", values=values), *run.events()])
    (finding,) = run.end()
    assert finding.fault == "few_distinct_samples"


def test_a_loader_that_begins_anew_with_the_same_random_numbers_gives_one_batch() -> None:
    (finding,) = drawn(30, 900, restarts=True).end()
    assert finding.fault == "same_batch_every_step"


@pytest.mark.parametrize(("distinct", "promised"), [(900, 900), (60, 60), (500, 900)])
def test_a_small_data_set_a_subset_and_a_sampler_that_repeats_some_are_left_alone(distinct: int, promised: int) -> None:
    assert drawn(distinct, promised).faults() == []


def labels(made_by: str, *, alike: int = 3000) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= {
        "alike": alike,
        "target_distinct": 1,
        "target_max": 0,
        "target_entropy": 0.0,
        "prediction_layer": made_by,
    }
    return run


def test_labels_that_are_all_the_same_are_named() -> None:
    (finding,) = labels("addmm").learn(40, 0.7, 0.001).end()
    assert (finding.fault, finding.where.line) == ("constant_labels", LOSS_LINE.line)


def test_a_class_that_is_rare_may_not_have_come_up_yet() -> None:
    assert labels("addmm", alike=640).learn(40, 0.7, 0.1).faults() == []


def test_a_contrastive_loss_has_the_right_answer_first_by_design() -> None:
    assert labels("div").learn(40, 2.0, 0.5).faults() == []


def test_a_critic_with_a_line_for_each_class_is_left_alone() -> None:
    run = labels("addmm")
    fake = Source("train.py", 30, "F.cross_entropy(critic(fake), ones)")
    for at in range(40):
        assert run.loss_values is not None
        other = Event("loss", part="loss", values=run.loss_values | {"target_min": 1, "target_max": 1}, source=fake)
        run.train(0.7 - 0.01 * at, events=[other, *run.events()])
    assert run.faults() == []


def rebuilt(kind: str, steps_each: int, **settings: float) -> Run:
    run = Run(optimizer=kind, settings=dict(settings))
    held = tuple(f"net:{layer.path}.weight" for layer in run.layers)
    source = Source("train.py", 23, "return torch.optim.Adam(self.model.parameters(), lr=self.lr)")
    for at in range(40):
        if at % steps_each == 0:
            run.optimizer = f"{kind}-{at + 2}"
            run.engine.part(Part("optimizer", run.optimizer, kind, dict(settings), source, held))
        run.train(1.0 - 0.01 * at)
    return run


def test_an_optimizer_made_for_every_update_is_named() -> None:
    (finding,) = rebuilt("Adam", 1).end()
    assert (finding.fault, finding.where.line) == ("optimizer_rebuilt_every_step", 23)


@pytest.mark.parametrize(("kind", "steps_each"), [("SGD", 1), ("Adam", 10)])
def test_plain_descent_and_an_optimizer_for_each_stage_are_left_alone(kind: str, steps_each: int) -> None:
    assert rebuilt(kind, steps_each).faults() == []


def without_gradients(*paths: str) -> Run:
    run = Run([Layer("embed"), Layer("encoder"), Layer("decoder"), Layer("head")])
    for layer in run.layers:
        if layer.path in paths:
            layer.gradient, layer.update = None, 0.0
    return run


def test_a_loss_made_from_numbers_reaches_no_parameter() -> None:
    (finding,) = without_gradients("embed", "encoder", "decoder", "head").stall(30).end()
    assert finding.fault == "detach_breaks_graph"
    assert finding.where.line == LOSS_LINE.line
    assert str(BACKWARD_LINE.line) in finding.why


def test_an_encoder_whose_output_nobody_uses_is_named_where_nothing_is_learnt() -> None:
    (finding,) = without_gradients("encoder").stall(120).end()
    assert (finding.fault, finding.where.module) == ("output_not_used", "encoder")


def test_updates_of_steps_that_were_slept_through_count() -> None:
    run = without_gradients("encoder").stall(20)
    for at in range(20):
        run.step = 20 + 5 * at
        run.train(1.4)
    assert run.faults() == ["output_not_used"]


def test_an_output_that_is_not_needed_harms_nobody() -> None:
    assert without_gradients("encoder").learn(120).faults() == []


def two_losses(added: bool) -> Run:
    run = without_gradients(*(() if added else ("head",)))
    second = Source("train.py", 31, "box_loss = F.smooth_l1_loss(out['box'], centre)")
    for at in range(120):
        loss = 1.4 - 0.01 * at
        other = {"function": "smooth_l1_loss", "value": 0.3, "grad": True}
        assert run.loss_values is not None
        run.loss_values |= {"value": loss, "grad": True}
        events = run.events()
        events.insert(2, Event("loss", part="smooth_l1_loss", values=dict(other), source=second))
        run.train(loss + (0.3 if added else 0.0), events=events)
    return run


def test_a_loss_that_is_computed_and_not_added_leaves_its_head_untrained() -> None:
    (finding,) = two_losses(added=False).end()
    assert (finding.fault, finding.where.line, finding.where.module) == ("output_not_used", 31, "head")


def test_two_losses_that_are_added_train_both_heads() -> None:
    assert two_losses(added=True).faults() == []


def recurrent(shape: tuple[int, ...], *, batch_first: bool = False, targets: str = "32", loss: float = 1.39) -> Run:
    lstm = Module("lstm", "LSTM", source=Source("train.py", 13), settings={"batch_first": batch_first})
    run = Run(modules=[lstm])
    assert run.loss_values is not None
    run.loss_values |= {"target_shape": targets}
    info = TensorInfo(900, "output", "lstm", "output.0", network="net", shape=shape, type="LSTM", dtype="float32")
    run.engine.tensor(info)
    for at in range(80):
        seen = [*run.observations(), Observation(900, 90, stats(0.3), "forward")]
        run.train(loss * (1 + 0.003 * (at % 3)), observations=seen)
    return run


def test_an_lstm_that_walks_along_the_batch_is_named() -> None:
    (finding,) = recurrent((32, 20, 16)).end()
    assert (finding.fault, finding.where.module, finding.where.line) == ("batch_and_time_swapped", "lstm", 13)


@pytest.mark.parametrize(
    "run",
    [
        recurrent((20, 32, 16)),
        recurrent((32, 20, 16), batch_first=True),
        recurrent((32, 20, 16), targets="32x20"),
        recurrent((32, 1, 16)),
        recurrent((32, 20, 16), loss=0.2),
    ],
    ids=["time first", "batch first", "a target for each step", "one sequence", "it learns"],
)
def test_an_lstm_that_walks_along_time_is_left_alone(run: Run) -> None:
    assert "batch_and_time_swapped" not in run.faults()


def by_hand(*, inputs: bool, passes: int = 60) -> Run:
    run = Run(lr=None)
    engine = run.engine
    engine.case.parts.clear()
    forward = {"training": True, "grad": True, **({"input_requires_grad": True} if inputs else {})}
    events = []
    for _ in range(passes):
        events.append(Event("forward", part="net", values=forward))
        events.append(Event("backward", part="net", values={"cleared": True}, source=BACKWARD_LINE))
    engine.rest(StepRecord(0, time=0.0, seconds=1.0, events=tuple(events)))
    return run


def test_gradients_that_no_update_ever_uses_are_named() -> None:
    (finding,) = by_hand(inputs=False).end()
    assert (finding.fault, finding.where.line) == ("update_never_applied", BACKWARD_LINE.line)


def test_gradients_for_the_inputs_and_a_few_for_a_look_are_left_alone() -> None:
    assert by_hand(inputs=True).faults() == []
    assert by_hand(inputs=False, passes=5).faults() == []


def evaluated(every: int, *, scored: bool) -> Run:
    run = Run(modules=[Module("drop", "Dropout", settings={"p": 0.4})])
    source = Source("train.py", 49, "loss_of(model, rows)")
    for at in range(60):
        blind = [Event("forward", part="net", values={"training": True, "grad": False}, source=source)]
        blind += [Event("scored", part="cross_entropy")] if scored else []
        run.train(1.4 - 0.01 * at, events=[*(blind if at and at % every == 0 else []), *run.events()])
    return run


def test_one_pass_with_a_loss_now_and_then_is_an_evaluation() -> None:
    (finding,) = evaluated(12, scored=True).end()
    assert (finding.fault, finding.where.module, finding.since_step) == ("train_mode_in_evaluation", "drop", 12)


@pytest.mark.parametrize(("every", "scored"), [(12, False), (1, True)])
def test_a_sample_and_a_pass_in_every_step_are_part_of_the_training(every: int, scored: bool) -> None:
    assert evaluated(every, scored=scored).faults() == []
