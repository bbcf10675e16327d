"""The suite every adapter passes: ours, and one that somebody else writes.

Subclass `AdapterSuite` in a test module, say how the framework writes a handful of tiny programs, and pytest does the
rest. Each test states one rule of `tensight.frameworks.adapter`. A capability the adapter lacks stands in its `cannot`
table; its test then checks that the reason is published instead.

    class TestMyFramework(AdapterSuite):
        def adapter(self): return MyAdapter()
        def train(self, steps): ...
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest

from tensight.frameworks import registry, table
from tensight.frameworks.adapter import Adapter
from tensight.frameworks.capabilities import CAPABILITIES
from tensight.records import Depth, Level, Needs
from tensight.testing.adapter_checks import assert_same, assert_statistics, first, last
from tensight.testing.adapter_programs import Outcome, Programs
from tensight.testing.fakes import RecordingSink

T = TypeVar("T", bound="AdapterSuite")
STEPS = 3


def capability(name: str) -> Callable[[Callable[[T], None]], Callable[[T], None]]:
    """Marks the test of a capability; where an adapter lacks it, the published reason is checked."""
    assert name in CAPABILITIES, name

    def wrap(test: Callable[[T], None]) -> Callable[[T], None]:
        @functools.wraps(test)
        def inner(self: T) -> None:
            if name in self.adapter().cannot:
                self.check_published(name)
            else:
                test(self)

        inner.capability = name  # type: ignore[attr-defined]
        return inner

    return wrap


class AdapterSuite(Programs):
    """Rules of an adapter, as tests. `Programs` lists what a framework must supply."""

    _cache: ClassVar[dict[tuple[Any, ...], Any]] = {}

    # helpers

    def plain(self, program: str, steps: int = STEPS) -> Outcome:
        """What a program does by itself; run once."""
        return self._once((program, steps), lambda: getattr(self, program)(steps))

    def watched(
        self, program: str, steps: int = STEPS, depth: Depth = Depth.ALL, level: Level = "watch"
    ) -> tuple[Outcome, RecordingSink]:
        """What it does under the adapter, and what the adapter said; run once."""

        def run() -> tuple[Outcome, RecordingSink]:
            sink = RecordingSink(depth, level)
            return self.under(sink, program, steps), sink

        return self._once((program, steps, depth, level), run)

    def under(self, sink: RecordingSink, program: str, steps: int = STEPS) -> Outcome:
        """Run a program with an adapter that reports to `sink`."""
        adapter = self.adapter()
        adapter.attach(sink)
        try:
            outcome: Outcome = getattr(self, program)(steps)
        finally:
            adapter.detach()
        outcome.held.clear()
        return outcome

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        full = (type(self), *key)
        if full not in self._cache:
            self._cache[full] = make()
        return self._cache[full]

    def check_published(self, name: str) -> None:
        """A capability that is lacking is declared with a reason, in the table that the documentation shows."""
        adapter = self.adapter()
        assert adapter.cannot[name], f"{adapter.name} gives no reason why it cannot do {name}"
        assert table.published(adapter.name)[name] == adapter.cannot[name]

    def cannot(self, name: str) -> bool:
        return name in self.adapter().cannot

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

    # shapes of training

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
