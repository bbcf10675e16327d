"""The suite every adapter passes: ours, and one that somebody else writes.

Subclass `AdapterSuite` in a test module, say how the framework writes a handful of tiny programs, and pytest does the
rest. Each test states one rule of `tensight.frameworks.adapter`. A capability the adapter lacks stands in its `cannot`
table; its test then checks that the reason is published instead.

    class TestMyFramework(AdapterSuite):
        def adapter(self): return MyAdapter()
        def train(self, steps): ...
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tensight.frameworks import registry
from tensight.frameworks.adapter import Adapter
from tensight.frameworks.capabilities import CAPABILITIES
from tensight.records import Depth, Level, Needs
from tensight.testing.adapter_checks import assert_same, assert_statistics, first, last
from tensight.testing.adapter_programs import Outcome, Programs
from tensight.testing.adapter_running import STEPS, capability
from tensight.testing.adapter_trainings import Trainings
from tensight.testing.fakes import RecordingSink

__all__ = ["AdapterSuite", "Outcome"]


class AdapterSuite(Trainings):
    """Rules of an adapter, as tests. `Programs` lists what a framework must supply."""

    # the training is left as it is

    @pytest.mark.parametrize("program", Programs.names())
    def test_a_training_is_bitwise_the_same(self, program: str) -> None:
        lacking = Programs.needs(program)
        if lacking and self.cannot(lacking):
            self.check_published(lacking)
            return
        plain = self.plain(program)
        outcome, sink = self.watched(program)
        assert sink.failures == []
        assert_same(plain, outcome)

    @pytest.mark.parametrize("level", ["module", "op"])
    def test_a_deeper_level_changes_nothing(self, level: Level) -> None:
        outcome, sink = self.watched("train", level=level)
        assert sink.failures == []
        assert_same(self.plain("train"), outcome)

    @pytest.mark.parametrize("depth", [Depth.LIGHT, Depth.GRADIENTS])
    def test_a_lesser_depth_changes_nothing(self, depth: Depth) -> None:
        outcome, sink = self.watched("train", depth=depth)
        assert sink.failures == []
        assert_same(self.plain("train"), outcome)

    def test_detach_leaves_nothing_behind(self) -> None:
        self.plain("train")  # whatever a framework loads late is loaded now
        before = self.fingerprint()
        sink = RecordingSink()
        self.under(sink, "train")
        assert self.fingerprint() == before
        said = len(sink.seen)
        assert_same(self.plain("train"), self.train(STEPS))
        assert len(sink.seen) == said

    def test_a_model_is_released_when_the_user_lets_go_of_it(self) -> None:
        sink = RecordingSink()
        adapter = self.adapter()
        adapter.attach(sink)
        try:
            outcome = self.train(STEPS)
            gc.collect()
            alive = [ref for ref in outcome.refs if ref() is not None]
        finally:
            adapter.detach()
        assert outcome.refs
        assert alive == []

    @pytest.mark.parametrize("method", ["observe", "tensor", "network", "part", "event", "loss", "forward", "needs"])
    def test_an_error_behind_the_adapter_never_reaches_the_training(self, method: str) -> None:
        sink = RecordingSink()
        sink.broken = {method}
        outcome = self.under(sink, "train")
        assert_same(self.plain("train"), outcome)
        assert sink.failures, f"an error in Sink.{method} was not reported"

    def test_an_error_while_an_error_is_reported_never_reaches_the_training(self) -> None:
        sink = RecordingSink()
        sink.broken = {"observe", "failed"}
        assert_same(self.plain("train"), self.under(sink, "train"))

    @pytest.mark.parametrize("method", ["updated", "forward"])
    def test_a_stop_that_is_asked_for_between_steps_ends_the_program(self, method: str) -> None:
        sink = RecordingSink()
        sink.stop_in = method
        with pytest.raises(SystemExit):
            self.under(sink, "train")
        self.recover()
        assert sink.failures == []
        assert_same(self.plain("train"), self.train(STEPS))

    # what is told, and when

    def test_every_tensor_is_declared_before_it_is_observed(self) -> None:
        for program in ("train", "train_two_models"):
            _, sink = self.watched(program)
            assert sink.undeclared == []
            ids = [one.tensor for one in sink.named("tensor")]
            assert len(ids) == len(set(ids))

    @capability("forward")
    def test_outputs_come_in_order_of_execution(self) -> None:
        _, sink = self.watched("train")
        outputs = [info.node for info, one in sink.observed(step=1) if info.kind in ("output", "activation")]
        assert outputs == ["first", "act", "second", ""]

    @capability("output_gradients")
    def test_gradients_of_outputs_come_in_order_of_the_backward_pass(self) -> None:
        _, sink = self.watched("train")
        nodes = [info.node for info, _ in sink.observed("output_gradient", step=1) if info.node]
        assert nodes == ["second", "act", "first"]

    @capability("steps")
    def test_a_step_is_told_from_forward_to_update(self) -> None:
        _, sink = self.watched("train")
        told = [one for one in sink.seen if one.step == 1]
        marks = [
            told.index(first(told, what))
            for what in ("forward", "forwarded", "loss", "backward", "before_update", "updated")
        ]
        assert marks == sorted(marks)
        start, returned, loss, backward, before, end = marks
        for place, (low, high) in {
            "output": (start, returned),
            "output_gradient": (loss, backward),
            "gradient": (loss, before),
            "weight": (before, end),
        }.items():
            where = [told.index(one) for info, one in sink.observed(step=1) if info.kind == place]
            assert where, f"no {place} was observed"
            assert all(low < at < high for at in where), f"{place} was observed outside its time"

    @capability("steps")
    def test_every_update_is_told_once(self) -> None:
        _, sink = self.watched("train")
        assert len(sink.named("updated")) == STEPS
        assert [one.values.get("skipped") for one in sink.events("optimizer_step")] == [None] * STEPS
        (part,) = [part for part in sink.parts.values() if part.kind == "optimizer"]
        assert sink.named("updated")[0].name == part.name
        assert part.parameters == tuple(f"{sink.only_network.name}:{name}" for name in self.PARAMETERS)
        assert part.unknown_parameters == 0

    def test_phases_say_where_in_a_step_a_tensor_was_seen(self) -> None:
        _, sink = self.watched("train")
        assert {one.phase for info, one in sink.observed("output")} == {"forward"}
        assert {one.phase for info, one in sink.observed("gradient")} == {"backward"}
        assert {one.phase for info, one in sink.observed("weight", step=1)} == {"update"}

    def test_modules_and_parameters_are_named_as_the_user_knows_them(self) -> None:
        _, sink = self.watched("train")
        network = sink.only_network
        assert [module.path for module in network.modules] == ["", "first", "act", "second"]
        assert [module.activation for module in network.modules] == [False, False, True, False]
        assert [parameter.name for parameter in network.parameters] == list(self.PARAMETERS)
        assert [parameter.role for parameter in network.parameters] == ["weight", "bias", "weight", "bias"]
        (part,) = [part for part in sink.parts.values() if part.kind == "optimizer"]
        assert {parameter.optimizer for parameter in network.parameters} == {part.name}
        assert {info.name for info, _ in sink.observed("weight")} == set(self.PARAMETERS)
        assert {info.name for info, _ in sink.observed("gradient")} == set(self.PARAMETERS)

    def test_an_activation_module_gives_activations_and_others_outputs(self) -> None:
        _, sink = self.watched("train")
        assert {info.node for info, _ in sink.observed("activation")} == {"act"}
        assert {info.node for info, _ in sink.observed("output")} == {"first", "second", ""}

    def test_what_the_step_was_fed_is_observed(self) -> None:
        outcome, sink = self.watched("train")
        (_, one), *_ = sink.observed("input", step=0)
        assert one.stats is not None
        assert_statistics(one.stats, outcome.inputs[0])

    # values

    @capability("loss")
    def test_the_loss_is_told_once_per_backward_pass(self) -> None:
        outcome, sink = self.watched("train")
        assert [one.number for one in sink.named("loss")] == outcome.losses
        assert len(sink.named("backward")) == STEPS

    @capability("gradients")
    def test_gradients_are_those_the_optimizer_sees(self) -> None:
        for program in ("train", "train_accumulating"):
            outcome, sink = self.watched(program)
            for step, truth in enumerate(outcome.gradients):
                for name, gradient in truth.items():
                    assert_statistics(last(sink.observed("gradient", name, step)), gradient)

    @capability("weights")
    def test_weights_are_observed_after_the_update_with_their_change_by_it(self) -> None:
        outcome, sink = self.watched("train")
        for step in range(STEPS):
            for name in self.PARAMETERS:
                stats = last(sink.observed("weight", name, step, "update"))
                assert_statistics(stats, outcome.after[step][name], outcome.before[step][name])

    @capability("weights")
    def test_weights_are_observed_before_the_first_update(self) -> None:
        outcome, sink = self.watched("train")
        for name in self.PARAMETERS:
            _, one = sink.observed("weight", name, 0)[0]
            assert one.phase == "forward"
            assert one.stats is not None
            assert_statistics(one.stats, outcome.before[0][name])

    def test_values_that_are_not_finite_are_counted(self) -> None:
        _, sink = self.watched("train_to_nan")
        bad = [info.node for info, one in sink.observed(step=1) if one.stats is not None and one.stats.bad]
        assert bad[0] == "second"

    def test_tensors_are_kept_when_asked_for(self) -> None:
        sink = RecordingSink()
        sink.keep_tensors = True
        self.under(sink, "train", 1)
        for info, one in sink.observed("output"):
            assert one.stats is not None
            assert sink.kept[info.id].shape == info.shape
            assert_statistics(one.stats, sink.kept[info.id])

    def test_statistics_agree_with_the_reference_on_every_dtype(self) -> None:
        adapter = self.adapter()
        values = np.array([[-2.0, 0.0, 1.0], [3.0, 4.0, 5.0]])
        for tensor, array in self.tensors(values):
            assert adapter.owns(tensor)
            assert_statistics(adapter.statistics(tensor, Needs(ranges=((0.0, 3.0),))), array)
            copy = adapter.numpy(tensor)
            assert copy.dtype == array.dtype
            assert np.array_equal(copy, array)
        assert not adapter.owns(values)

    # depth

    def test_at_light_depth_only_the_loss_and_events_are_told(self) -> None:
        outcome, sink = self.watched("train", depth=Depth.LIGHT)
        assert {info.kind for info, _ in sink.observed()} <= {"loss"}
        assert [one.number for one in sink.named("loss")] == outcome.losses
        assert len(sink.named("updated")) == STEPS
        assert len(sink.events("optimizer_step")) == STEPS

    def test_at_gradient_depth_modules_are_left_alone(self) -> None:
        _, sink = self.watched("train", depth=Depth.GRADIENTS)
        kinds = {info.kind for info, _ in sink.observed()}
        assert {"gradient", "weight"} <= kinds <= {"gradient", "weight", "loss"}

    def test_depth_may_change_between_steps(self) -> None:
        sink = RecordingSink()
        sink.depths = {0: Depth.ALL, 1: Depth.LIGHT, 2: Depth.ALL}
        adapter = self.adapter()
        sink.on_depth = adapter.depth_changed
        adapter.attach(sink)
        try:
            outcome = self.train(STEPS)
        finally:
            adapter.detach()
        assert_same(self.plain("train"), outcome)
        assert {one.step for info, one in sink.observed("output")} == {0, 2}
        assert {one.step for info, one in sink.observed("gradient")} == {0, 2}
        truth = (outcome.after[2]["first.weight"], outcome.before[2]["first.weight"])
        assert_statistics(last(sink.observed("weight", "first.weight", 2, "update")), *truth)

    @capability("module_level")
    def test_at_level_module_inputs_and_their_gradients_are_observed(self) -> None:
        _, sink = self.watched("train", level="module")
        assert {info.node for info, _ in sink.observed("module_input")} >= {"act", "second"}
        assert {info.node for info, _ in sink.observed("input_gradient")} >= {"act", "second"}
        _, shallow = self.watched("train")
        assert not shallow.observed("module_input")

    @capability("op_level")
    def test_at_level_op_operators_are_observed(self) -> None:
        _, sink = self.watched("train", level="op")
        assert sink.observed("operator")
        assert sink.observed("operator_gradient")

    # the suite itself

    def test_every_capability_has_a_test_or_a_reason(self) -> None:
        tested = {
            getattr(getattr(type(self), name), "capability", None)
            for name in dir(type(self))
            if name.startswith("test_")
        }
        assert set(CAPABILITIES) <= tested
        assert set(self.adapter().cannot) <= set(CAPABILITIES)

    def test_the_adapter_is_registered_under_its_name(self) -> None:
        adapter: Adapter = self.adapter()
        assert registry.ADAPTERS[adapter.name].endswith(":" + type(adapter).__name__)
        assert adapter.version()
