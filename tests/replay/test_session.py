"""Rewind as a user meets it: `tensight run` names the operator and line, and the script prints what it always did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensight.runs import open_run
from tests.replay import programs
from tests.replay.jobs import watched


def evidence(finding: dict[str, Any]) -> dict[str, Any]:
    return {one["what"]: one["value"] for one in finding["evidence"]}


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_and_generators(tmp_path, workers):
    report = watched(tmp_path, programs.WORKERS.replace("num_workers=2", f"num_workers={workers}"))
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["where"]["op"]) == ("log_of_zero", "exact", "aten.log")
    assert first["where"]["code"].startswith("loss = -torch.log(")
    assert evidence(first)["samples of the data set"] == "17"


def test_kept_batches_of_workers_hold_no_files_and_are_as_they_were_handed_out(tmp_path):
    report = watched(tmp_path, programs.FEW_FILES)
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["since_step"]) == ("log_of_zero", "exact", 250)
    assert evidence(first)["samples of the data set"] == "1001"


def test_a_loss_scaler_a_scheduler_and_the_summand_of_the_loss(tmp_path):
    report = watched(tmp_path, programs.SCALER)
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["where"]["op"]) == ("log_of_zero", "exact", "aten.log")
    assert evidence(first)["samples of the data set"] == "17"
    assert evidence(first)["the loss is a sum"].startswith("summand 2 of 2 (aten.mean")


def test_accumulated_gradients_with_loader_workers(tmp_path):
    report = watched(tmp_path, programs.ACCUMULATION)
    (first,) = [one for one in report["findings"] if one["fault"] == "sqrt_zero_gradient"]
    assert report["same"], report["printed"]
    assert first["replay"] == "exact"
    assert evidence(first)["samples of the data set"] == "17"


def test_several_optimizers(tmp_path):
    report = watched(tmp_path, programs.GAN)
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["since_step"]) == ("log_of_zero", "exact", 7)
    assert first["where"]["code"].startswith("given = torch.log(")


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_that_are_computed_again(tmp_path, reentrant):
    report = watched(tmp_path, programs.CHECKPOINT.replace("REENTRANT", str(reentrant)))
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["since_step"]) == ("sqrt_zero_gradient", "exact", 6)
    assert first["where"]["code"].startswith("return torch.sqrt(")


@pytest.mark.parametrize("asleep", [3, 100])
def test_a_bad_step_after_a_sleep_and_its_tensors(tmp_path, asleep):
    report = watched(tmp_path, programs.SLEEPER, asleep=asleep)
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["replay"], first["since_step"]) == ("sqrt_zero_gradient", "exact", 20)
    run = open_run(tmp_path / "run")
    assert np.isnan(run.tensor("", "weight.grad", step=20).numpy()).all()
    assert np.isfinite(run.tensor("", "output", step=20).numpy()).all()


@pytest.mark.parametrize("kind", ["[None]", ".double()", ".bfloat16()"])
def test_a_loss_of_another_shape_or_format_wakes_too(tmp_path, kind):
    program = programs.SLEEPER.replace("torch.sqrt(d * (step != 20)).sum()", f"torch.log(d * (step != 20)).sum(){kind}")
    report = watched(tmp_path, program, asleep=3)
    first = report["findings"][0]
    assert report["same"], report["printed"]
    assert (first["fault"], first["since_step"]) == ("log_of_zero", 20)


def test_guard_stops_before_the_update_that_would_spoil_the_weights(tmp_path):
    report = watched(tmp_path, programs.PLAIN, "--guard")
    assert (report["exit"], report["run"]["ended"], report["run"]["steps"]) == (0, "stopped", 7)
    assert report["findings"][0]["fault"] == "sqrt_zero_gradient"
    assert "\n6 " not in report["printed"]


@pytest.mark.parametrize("how", [("--guard",), ("--on-finding", "stop")])
def test_where_no_copy_may_run_a_run_that_stops_anyway_runs_the_step_again_in_place(tmp_path, how):
    report = watched(tmp_path, programs.WORKERS, *how, never="an accelerator is in use")
    first = report["findings"][0]
    assert (first["fault"], first["replay"], first["where"]["op"]) == ("log_of_zero", "exact", "aten.log")
    (replay,) = open_run(tmp_path / "run").replays
    assert (replay.strategy, replay.step) == ("in place", 2)
    assert "twice" in replay.reason
    assert (report["exit"], report["run"]["ended"], report["run"]["steps"]) == (0, "stopped", 3)


def test_without_a_stop_nothing_is_run_again_in_place(tmp_path):
    report = watched(tmp_path, programs.WORKERS, never="an accelerator is in use")
    (replay,) = open_run(tmp_path / "run").replays
    assert report["same"]
    assert (replay.strategy, replay.operator) == ("graph", "aten.log")
    assert "an accelerator is in use" in replay.reason


@pytest.mark.parametrize("how", [("--guard",), ("--on-finding", "stop")])
def test_a_script_that_asks_for_no_further_batch_keeps_good_weights_and_it_is_said(tmp_path, how):
    report = watched(tmp_path, programs.LAST, *how, never="an accelerator is in use")
    (replay,) = open_run(tmp_path / "run").replays
    assert (replay.status, replay.reason) == ("not possible", "the script asked for no further batch")
    assert "good True" in report["printed"]


def test_in_a_group_nothing_is_run_again_in_place_since_the_others_would_wait(tmp_path):
    report = watched(tmp_path, programs.WORKERS, "--guard", never="the process is part of a group")
    (replay,) = open_run(tmp_path / "run").replays
    assert (replay.strategy, replay.operator) == ("graph", "aten.log")
    assert "part of a group" in replay.reason
    assert (report["exit"], report["run"]["steps"]) == (0, 3)


def test_a_weight_that_is_assigned_nan_is_no_fault_of_the_data(tmp_path):
    report = watched(tmp_path, programs.ASSIGNED)
    (first,) = report["findings"]
    assert report["same"], report["printed"]
    assert (first["fault"], first["since_step"]) == ("nonfinite_weight", 6)
    assert first["where"]["code"].startswith("net[2].weight[0, 3] =")
    assert "2.weight is assigned NaN" in first["title"]


def test_a_nan_that_the_data_set_makes_while_it_loads_is_named_by_its_line(tmp_path):
    report = watched(tmp_path, programs.LOADING, "--budget", "100")
    (first,) = report["findings"]
    assert report["same"], report["printed"]
    assert (first["fault"], first["since_step"], first["where"]["op"]) == ("nan_in_input", 6, "aten.div")
    assert first["where"]["code"].startswith("return (image - image.mean()) / image.std()")
    assert "8 NaN of 40 values before the network saw it" in first["why"]
    assert "divides by zero" in first["why"]
    assert report["printed"].count("✖") == 1, "said once, when the second look had ended"


def test_tensors_that_are_trained_by_hand_without_a_module_or_an_optimizer(tmp_path):
    report = watched(tmp_path, programs.BARE_TENSORS)
    (first,) = report["findings"]
    assert report["same"], report["printed"]
    assert report["run"]["steps"] == 30
    assert "2 of 2 trainable parameters changed" in report["printed"]
    assert (first["fault"], first["since_step"], first["replay"]) == ("division_by_zero", 20, "exact")
    assert first["where"]["code"].startswith("loss = ((hidden @ second) / x.sum(")
    run = open_run(tmp_path / "run")
    assert {info.slot for info in run.tensors.values() if info.kind == "weight"} == {"first", "second"}
