"""Data that changes, repeats, jumps or keeps the training waiting; workers that do the same work."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Observation, Part, Source
from tests.diagnosis.builders import Run, constant, stats

LOADER_LINE = Source("train.py", 6, "loader = DataLoader(data, batch_size=32)")


def loader(run: Run, **settings: Any) -> None:
    known = {"batches": 10, "shuffle": False, "sampler": "SequentialSampler", "workers": 0}
    run.engine.part(Part("loader", "DataLoader", "DataLoader", known | settings, LOADER_LINE))


def feed(run: Run, steps: int, batch: Any) -> list[str]:
    """`batch(step)` gives the values of each step's batch event."""
    for at in range(steps):
        event = Event("batch", part="DataLoader", values=batch(at), source=LOADER_LINE)
        run.train(1.4 - at / steps, events=[event, *run.events()])
    return run.faults()


def test_a_data_set_that_grows_from_epoch_to_epoch_is_named() -> None:
    run = Run()
    loader(run)
    assert feed(run, 60, lambda at: {"index": at % 10, "std.0": 1.4 ** (at // 10)}) == ["stored_data_changes"]
    assert run.engine.findings[0].where.line == 6


@pytest.mark.parametrize(
    ("written", "growth", "faults"),
    [
        (True, 1.15, ["stored_data_changes"]),
        (False, 1.15, []),
        (True, 1.0, []),  # a cache that is filled, or a buffer that samples are made in
    ],
)
def test_where_loaders_were_seen_to_write_a_slower_drift_is_enough(
    written: bool, growth: float, faults: list[str]
) -> None:
    run = Run()
    loader(run)
    if written:
        told = Event("stored_written", part="DataLoader", values={"attribute": "images"}, source=LOADER_LINE)
        run.train(1.4, events=[told, *run.events()])
    assert feed(run, 60, lambda at: {"index": at % 10, "std.0": growth ** (at // 10)}) == faults


def test_batches_that_differ_as_data_does_have_no_finding() -> None:
    run = Run()
    loader(run)
    assert feed(run, 60, lambda at: {"index": at % 10, "std.0": 1.0 + 0.9 * (at * 7 % 10) / 10}) == []


def test_a_loader_that_is_started_anew_for_every_batch_is_named() -> None:
    run = Run()
    loader(run)
    assert feed(run, 30, lambda at: {"index": 0}) == ["same_batch_every_step"]


def test_a_random_batch_from_a_new_iterator_each_time_has_no_finding() -> None:
    run = Run()
    loader(run, shuffle=True, sampler="RandomSampler")
    assert feed(run, 30, lambda at: {"index": 0}) == []


def test_full_batch_training_has_no_finding() -> None:
    run = Run()
    loader(run, batches=1)
    assert feed(run, 30, lambda at: {"index": 0}) == []


def test_workers_that_draw_the_same_numbers_are_named_where_the_generator_is_made() -> None:
    run = Run()
    loader(run, workers=2)
    run.learn(3)
    values = {"generator": "dataset.rng", "same": 2, "workers": 2}
    line = Source("train.py", 12, "self.rng = np.random.RandomState(0)")
    run.train(1.0, events=[Event("workers", part="DataLoader", values=values, source=line), *run.events()])
    (finding,) = run.learn(10).end()
    assert (finding.fault, finding.where.line) == ("duplicate_augmentation_across_workers", 12)


def test_a_stream_that_every_worker_hands_out_whole_is_named() -> None:
    run = Run()
    loader(run, workers=2)
    repeated = {"std.0": 1.0, "repeat_of": 1}
    batches = feed(run, 20, lambda at: {"index": at, **(repeated if at % 2 else {"std.0": 1.0})})
    assert batches == ["duplicate_samples_across_workers"]


def test_a_few_repeated_batches_have_no_finding() -> None:
    run = Run()
    loader(run, workers=2)
    assert feed(run, 40, lambda at: {"index": at, "std.0": 1.0, **({"repeat_of": 1} if at % 8 == 7 else {})}) == []


def test_targets_that_are_out_of_reach_are_named() -> None:
    run = Run()
    run.loss_values = {
        "function": "mse_loss",
        "prediction_shape": "64x1",
        "target_shape": "64x1",
        "target_min": 1e5,
        "target_max": 4e5,
        "target_variance": 1e10,
        "reduction": "mean",
    }
    assert run.stall(60, 6.7e10).faults() == ["target_not_normalised"]


def test_large_targets_that_are_learnt_have_no_finding() -> None:
    run = Run()
    run.loss_values = {"function": "mse_loss", "target_min": 0.0, "target_max": 5e3, "target_variance": 1e6}
    assert run.learn(80, 5e6, 2e4).faults() == []


def outlier(run: Run, after: float) -> None:
    for at in range(40):
        seen = run.observations()
        if at == 20:
            fed = run.tensor("input", "", "input.0", dtype="float32")
            seen = [Observation(fed, 0, stats(3000.0)), *(one for one in seen if one.tensor != fed)]
        run.layers[0].update = 5.0 if at == 20 else 1e-3
        run.train(1.0 if at < 20 else 1e6 if at == 20 else after, observations=seen)


def test_a_batch_far_beyond_all_others_that_breaks_the_training_is_named() -> None:
    run = Run()
    outlier(run, after=5e4)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("outlier_batch", 20)


def test_an_operator_that_could_not_bear_the_batch_is_the_cause_and_not_the_batch() -> None:
    run = Run()
    outlier(run, after=5e4)
    run.replay("aten.sum", 20, facts={"kind": "made", "dtype": "float16"})
    assert "outlier_batch" not in run.faults()


def test_a_batch_far_beyond_all_others_that_does_no_harm_has_no_finding() -> None:
    run = Run()
    outlier(run, after=0.9)
    assert run.faults() == []


def test_steps_that_wait_for_their_batch_are_named() -> None:
    run = Run()
    loader(run)
    run.scalars["before_forward"] = 0.04
    run.seconds = 0.045
    (finding,) = run.learn(30).end()
    assert (finding.fault, finding.where.line, finding.where.op) == ("data_loading_starvation", 6, "DataLoader")


@pytest.mark.parametrize(
    ("before", "whole", "workers"),
    [(0.004, 0.01, 0), (0.0045, 0.005, 0), (0.04, 0.06, 0), (0.04, 0.045, 2)],
    ids=["half of it", "next to nothing", "two thirds", "for worker processes on a busy machine"],
)
def test_steps_that_wait_a_little_have_no_finding(before: float, whole: float, workers: int) -> None:
    run = Run()
    loader(run, workers=workers)
    run.scalars["before_forward"] = before
    run.seconds = whole
    assert run.learn(30).faults() == []


def test_labels_that_were_permuted_alone_are_named_at_that_line() -> None:
    run = Run()
    line = Source("train.py", 8, "x = x[order]")
    run.scalars["probe/label_information"] = 0.0
    run.train(1.4, events=[Event("permuted", values={"size": 1200, "uses": 1}, source=line), *run.events()])
    (finding,) = run.stall(120, 1.39).end()
    assert (finding.fault, finding.where.line) == ("labels_shuffled_against_inputs", 8)


@pytest.mark.parametrize(("shuffled", "faults"), [(True, ["labels_shuffled_against_inputs"]), (False, [])])
def test_tokens_without_labels_need_a_list_that_was_shuffled_alone(shuffled: bool, faults: list[str]) -> None:
    run = Run()
    run.scalars["probe/token_information"] = 0.0
    moved = Event("permuted", values={"size": 1600, "values": True}, source=Source("train.py", 21, "sample(texts)"))
    run.train(1.4, events=[*([moved] if shuffled else []), *run.events()])
    found = run.stall(120, 1.39).end()
    assert [(finding.fault, finding.where.line) for finding in found] == [(fault, 21) for fault in faults]


def test_a_list_that_was_shuffled_is_no_proof_where_the_loss_has_fallen() -> None:
    run = Run()
    run.scalars["probe/label_information"] = 0.0
    moved = Event("permuted", values={"size": 1600, "values": True}, source=Source("train.py", 21, "sample(texts)"))
    run.train(1.4, events=[moved, *run.events()])
    assert "labels_shuffled_against_inputs" not in run.learn(120, 1.4, 1.0).faults()


def test_a_permutation_of_one_tensor_in_a_training_that_learns_has_no_finding() -> None:
    run = Run()
    run.scalars["probe/label_information"] = 0.4
    run.train(1.4, events=[Event("permuted", values={"size": 1200, "uses": 1}), *run.events()])
    assert run.learn(120).faults() == []


def test_inputs_of_one_number_still_come_first() -> None:
    run = Run()
    run.input = constant(0.0)
    assert run.stall(60).faults() == ["constant_input"]


def seeded(run: Run) -> Run:
    values = {"generator": "torch", "seed": 0, "since": 1, "steps": 10}
    line = Source("train.py", 12, "torch.manual_seed(0)")
    run.learn(11)
    run.train(0.4, events=[Event("reseeded", part="net", values=values, source=line), *run.events()])
    return run


def test_a_seed_in_the_loop_that_makes_every_batch_the_same_is_named() -> None:
    (finding,) = seeded(Run()).learn(30, 0.4, 0.1).end()
    assert (finding.fault, finding.where.line, finding.since_step) == ("batch_drawn_alike", 12, 1)
    assert "torch.manual_seed(0)" in finding.why


def test_a_seed_in_the_loop_that_leaves_batches_different_has_no_finding() -> None:
    run = Run()
    for at in range(12):
        run.input = 1.0 + 0.01 * at
        run.train(1.4 - 0.02 * at)
    assert seeded(run).faults() == []
