"""Every way MindSpore has to train gives the same story, as far as Python can see it."""

from __future__ import annotations

from collections.abc import Iterator

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from tensight.frameworks.mindspore.adapter import MindSporeAdapter
from tensight.testing.fakes import RecordingSink
from tests.mindspore.programs import (
    PARAMETERS,
    STEPS,
    Net,
    by_functions,
    by_jit,
    by_model,
    by_one_step_cell,
    watched,
)


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def losses(sink: RecordingSink) -> list[float]:
    return [one.number for one in sink.named("loss")]


def assert_updates_are_told(sink: RecordingSink) -> None:
    assert [one.name for one in sink.named("updated")] == ["Momentum"] * STEPS
    assert len(sink.named("backward")) == STEPS
    assert list(sink.networks) == ["net"]
    assert [parameter.name for parameter in sink.only_network.parameters] == PARAMETERS
    for name in PARAMETERS:
        seen = [one.stats for _, one in sink.observed("weight", name, phase="update")]
        assert len(seen) == STEPS
        assert all(stats is not None and stats.change is not None and stats.change.moved for stats in seen)
        assert sink.observed("weight", name)[0][1].phase == "forward"  # as it was before the first update


def assert_cells_are_seen(sink: RecordingSink) -> None:
    nodes = [info.node for info, _ in sink.observed(step=1) if info.kind in ("output", "activation")]
    assert nodes == ["first", "act", "second", ""]
    assert {info.name for info, _ in sink.observed("gradient")} == set(PARAMETERS)
    assert sink.gaps == []


def test_a_training_cell_is_looked_through_to_the_model() -> None:
    plain = by_one_step_cell()
    answer, sink = watched(by_one_step_cell)
    assert answer == plain == losses(sink)
    assert_updates_are_told(sink)
    assert_cells_are_seen(sink)
    assert len(sink.events("loss")) == STEPS


def test_model_train_and_eval_are_told_apart() -> None:
    plain = by_model()
    answer, sink = watched(by_model)
    assert answer == plain
    assert losses(sink) == plain[:STEPS]
    assert_updates_are_told(sink)
    assert_cells_are_seen(sink)
    assert [one.training for one in sink.named("forward")] == [True] * STEPS + [False] * STEPS
    assert [part for kind, part in sink.parts if kind == "loader"] == ["BatchDataset"]


def test_a_step_under_jit_is_seen_from_outside() -> None:
    plain = by_jit()
    answer, sink = watched(by_jit)
    assert answer == plain == losses(sink)
    assert_updates_are_told(sink)
    assert not sink.observed("output")
    assert {what for what, _, _ in sink.gaps} == {"cells and gradients inside step"}


@pytest.mark.usefixtures("graph_mode")
def test_gradients_that_pass_through_python_are_seen_in_graph_mode() -> None:
    plain = by_functions()
    answer, sink = watched(by_functions)
    assert answer == plain == losses(sink)
    assert_updates_are_told(sink)
    assert {info.name for info, _ in sink.observed("gradient")} == set(PARAMETERS)
    assert {what for what, _, _ in sink.gaps} == {"cells inside the gradient function"}


@pytest.mark.usefixtures("graph_mode")
def test_model_train_in_graph_mode_tells_loss_weights_and_steps() -> None:
    plain = by_model()
    answer, sink = watched(by_model)
    assert answer == plain
    assert losses(sink) == plain[:STEPS]
    assert_updates_are_told(sink)
    assert sink.only_network.compiled
    assert {what for what, _, _ in sink.gaps} == {"cells and gradients inside net"}
    assert [one.training for one in sink.named("forward")] == [True] * STEPS + [False] * STEPS
    # what MindSpore's own cells hand to the model and to the loss passes through Python
    assert [info.slot for info, _ in sink.observed("input")] == ["input.0"] * STEPS
    targets = [one.values for one in sink.events("labels")]
    assert [(one["function"], one["target_shape"]) for one in targets] == [("mse_loss", "8x2")] * STEPS


@pytest.mark.usefixtures("graph_mode")
def test_a_compiled_step_is_told_before_it_runs_so_that_its_time_is_no_wait_for_data() -> None:
    sink = RecordingSink()
    seen: list[int] = []  # forward passes told so far, as the graph itself finds them

    def look(x: np.ndarray) -> np.ndarray:
        seen.append(len(sink.named("forward")))
        return x

    inside = ops.Custom(look, lambda shape: shape, lambda dtype: dtype, "pyfunc")

    class Looking(Net):
        def construct(self, x: Tensor) -> Tensor:
            seen = ops.stop_gradient(inside(ops.stop_gradient(x)))
            return self.second(self.act(self.first(ops.depend(x, seen))))

    adapter = MindSporeAdapter()
    adapter.attach(sink)
    try:
        by_functions(Looking)
    finally:
        adapter.detach()
    assert sink.failures == []
    assert seen == [1, 2, 3]
