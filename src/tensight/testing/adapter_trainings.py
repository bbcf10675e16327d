"""Rules of an adapter about the many shapes of a training; part of the adapter suite."""

from __future__ import annotations

import pytest

from tensight.testing.adapter_checks import assert_same, assert_statistics, last
from tensight.testing.adapter_running import STEPS, Watched, capability
from tensight.testing.fakes import RecordingSink


class Trainings(Watched):
    """What is told of models, losses, loaders, schedules and scalers, of hooks and of compiled code."""

    @capability("several_models")
    def test_several_models_and_optimizers_are_told_apart(self) -> None:
        _, sink = self.watched("train_two_models")
        assert len(sink.networks) == 2
        optimizers = [part for part in sink.parts.values() if part.kind == "optimizer"]
        assert len(optimizers) == 2
        held = [{name.partition(":")[0] for name in part.parameters} for part in optimizers]
        assert sorted(map(sorted, held)) == sorted([name] for name in sink.networks)
        assert [one.name for one in sink.named("updated")] == [part.name for part in optimizers] * STEPS
        for name in sink.networks:
            assert {info.name for info, _ in sink.observed("weight") if info.network == name} == set(self.PARAMETERS)

    @capability("evaluation")
    def test_evaluation_inside_a_training_is_told_apart(self) -> None:
        _, sink = self.watched("train_and_evaluate")
        assert [one.training for one in sink.named("forward")] == [True, False] * STEPS
        outside = [one for one in sink.seen if one.what == "observe" and one.phase == "evaluation"]
        assert {sink.infos[one.tensor].node for one in outside} >= {"first", "act", "second", ""}
        assert len(sink.named("backward")) == STEPS
        names = {sink.infos[one.tensor].name for one in outside}
        assert not any("#" in name for name in names)

    @capability("inference")
    def test_a_program_that_never_trains_is_watched(self) -> None:
        _, sink = self.watched("infer")
        assert [one.training for one in sink.named("forward")] == [False] * STEPS
        assert len(sink.named("forwarded")) == STEPS
        assert not sink.named("updated")
        assert not sink.named("backward")
        assert len([info for info, _ in sink.observed("output") if info.node == "first"]) == STEPS

    @capability("frozen")
    def test_frozen_parameters_are_told_apart(self) -> None:
        _, sink = self.watched("train_frozen")
        trainable = {parameter.name: parameter.trainable for parameter in sink.only_network.parameters}
        assert trainable == {name: not name.startswith("first") for name in self.PARAMETERS}
        assert {info.name for info, _ in sink.observed("frozen")} == {"first.weight", "first.bias"}
        assert {info.name for info, _ in sink.observed("gradient")} == {"second.weight", "second.bias"}

    @capability("buffers")
    def test_running_statistics_are_buffers(self) -> None:
        _, sink = self.watched("train_with_buffers")
        buffers = {parameter.name for parameter in sink.only_network.parameters if parameter.buffer}
        assert buffers >= set(self.BUFFERS)
        assert {info.name for info, _ in sink.observed("buffer")} >= set(self.BUFFERS)
        assert not {info.name for info, _ in sink.observed("weight")} & set(self.BUFFERS)

    @capability("tied_weights")
    def test_a_tied_weight_is_observed_once(self) -> None:
        _, sink = self.watched("train_tied")
        tied = {parameter.name: parameter.tied_to for parameter in sink.only_network.parameters if parameter.tied_to}
        assert tied == {"second.weight": "first.weight"}
        assert len(sink.observed("weight", "first.weight", 1)) == 1
        assert not sink.observed("weight", "second.weight")
        assert len(sink.observed("gradient", "first.weight", 1)) == 1

    @capability("nested_outputs")
    def test_tensors_inside_a_result_are_found(self) -> None:
        _, sink = self.watched("train_nested")
        slots = {info.slot for info, _ in sink.observed("output") if info.node == "pair"}
        assert slots == {"output.0", "output.1.mask"}

    @capability("dataclass_outputs")
    def test_tensors_inside_a_dataclass_are_found(self) -> None:
        _, sink = self.watched("train_dataclass")
        slots = {info.slot for info, _ in sink.observed("output") if info.node == "pair"}
        assert slots == {"output.value", "output.mask"}

    @capability("repeated_calls")
    def test_calls_of_a_module_in_one_step_are_numbered(self) -> None:
        _, sink = self.watched("train_repeated")
        for step in range(STEPS):
            names = [
                info.name for info, _ in sink.observed(step=step) if info.kind == "output" and info.node == "first"
            ]
            assert names == ["first", "first#1"]

    @capability("accumulation")
    def test_accumulated_backward_passes_are_told_apart(self) -> None:
        _, sink = self.watched("train_accumulating")
        assert len(sink.named("backward")) == 2 * STEPS
        assert len(sink.named("loss")) == 2 * STEPS
        assert len(sink.named("updated")) == STEPS
        names = {info.name for info, _ in sink.observed("output") if info.node == "first"}
        assert names == {"first"}

    @capability("user_hooks")
    def test_hooks_of_the_user_are_called_as_before(self) -> None:
        outcome, _ = self.watched("train_with_hook")
        assert outcome.hooks
        assert outcome.hooks == self.plain("train_with_hook").hooks

    @capability("functional_activations")
    def test_activation_functions_count_like_modules(self) -> None:
        _, sink = self.watched("train_functional")
        kinds = {info.type.lower() for info, _ in sink.observed("activation")}
        assert kinds == {"relu", "sigmoid"}
        places = {(info.node, info.slot) for info, _ in sink.observed("activation")}
        assert places == {("", "relu.0"), ("", "sigmoid.0")}
        order = [info.slot for info, _ in sink.observed(step=1) if info.kind in ("output", "activation")]
        assert order == ["output.0", "relu.0", "output.0", "sigmoid.0", "output.0"]

    @capability("updates_without_optimizer")
    def test_weights_changed_by_hand_end_a_step(self) -> None:
        _, sink = self.watched("train_by_hand")
        assert len(sink.named("backward")) == STEPS
        assert len(sink.named("weights_changed")) == STEPS
        assert not sink.named("updated")

    @capability("loss_events")
    def test_a_loss_module_tells_of_prediction_and_target(self) -> None:
        _, sink = self.watched("train")
        self._check_loss_event(sink)

    @capability("functional_losses")
    def test_a_loss_function_tells_of_prediction_and_target(self) -> None:
        _, sink = self.watched("train_functional_loss")
        self._check_loss_event(sink)

    def _check_loss_event(self, sink: RecordingSink) -> None:
        events = sink.events("loss")
        assert len(events) == STEPS
        values = events[0].values
        assert values["function"]
        assert values["prediction_shape"] == values["target_shape"] == "8x2"
        assert isinstance(values["prediction_min"], float)
        assert isinstance(values["target_max"], float)

    @capability("loaders")
    def test_batches_of_a_loader_are_told(self) -> None:
        _, sink = self.watched("train_from_loader")
        loaders = [part.name for part in sink.parts.values() if part.kind == "loader"]
        assert len(loaders) == 1
        events = sink.events("batch")
        assert [one.values["part"] for one in events] == loaders * STEPS
        assert [one.values["index"] for one in events] == list(range(STEPS))
        assert {one.values["size"] for one in events} == {8}
        assert isinstance(events[0].values["mean.0"], float)

    @capability("schedulers")
    def test_schedulers_are_found(self) -> None:
        _, sink = self.watched("train_scheduled")
        assert [part for part in sink.parts.values() if part.kind == "scheduler"]
        assert len(sink.events("scheduler_step")) == STEPS

    def test_the_learning_rate_of_each_update_is_told(self) -> None:
        outcome, sink = self.watched("train_scheduled")
        rates = [one.values["lr"] for one in sink.events("optimizer_step")]
        assert rates == pytest.approx(outcome.rates, rel=1e-6)
        assert len(set(outcome.rates)) > 1

    @capability("scalers")
    def test_a_scaled_loss_and_its_gradients_are_told_as_they_truly_are(self) -> None:
        outcome, sink = self.watched("train_scaled")
        assert [part for part in sink.parts.values() if part.kind == "scaler"]
        assert sink.events("scale")
        assert [one.number for one in sink.named("loss")] == pytest.approx(outcome.losses, rel=1e-6)
        for step, truth in enumerate(outcome.gradients):
            for name, gradient in truth.items():
                assert_statistics(last(sink.observed("gradient", name, step)), gradient)

    @capability("scalers")
    def test_an_update_that_a_scaler_leaves_out_is_told_as_skipped(self) -> None:
        _, sink = self.watched("train_overflowing")
        skipped = [bool(one.values.get("skipped")) for one in sink.events("optimizer_step")]
        assert skipped == [True, False, False]
        assert [bool(one.values["overflow"]) for one in sink.events("scale")] == [True, False, False]

    @capability("clipping")
    def test_clipping_is_told(self) -> None:
        _, sink = self.watched("train_clipped")
        assert len(sink.events("clip")) == STEPS

    @capability("compiled")
    def test_the_inside_of_compiled_code_is_watched(self) -> None:
        _, sink = self.watched("train_compiled")
        assert {info.node for info, _ in sink.observed("output")} >= {"first", "second"}

    def test_what_compiled_code_hides_is_a_gap(self) -> None:
        if not self.cannot("compiled"):
            return
        outcome, sink = self.watched("train_compiled")
        assert sink.failures == []
        assert_same(self.plain("train_compiled"), outcome)
        assert sink.gaps
        assert all(reason and remedy for _, reason, remedy in sink.gaps)
        assert len(sink.named("updated")) == STEPS
        assert [one.number for one in sink.named("loss")] == outcome.losses
