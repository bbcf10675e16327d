"""What is particular to MindSpore."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.amp import DynamicLossScaler, all_finite

from tensight.frameworks.mindspore.adapter import MindSporeAdapter
from tensight.frameworks.mindspore.values import tensors
from tensight.records import Depth
from tensight.testing.fakes import RecordingSink
from tests.mindspore.programs import PARAMETERS, STEPS, Net, batches, by_functions, by_jit, new_net, number, watched


def test_a_loss_scale_inside_the_optimizer_is_taken_out_of_the_gradients() -> None:
    def run(scale: float) -> Any:
        def rule(parameters: Any) -> nn.Cell:
            return nn.Momentum(parameters, 0.1, 0.9, loss_scale=scale)

        class Scaled(nn.MSELoss):
            def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
                return super().construct(logits, labels) * scale

        return watched(lambda: by_functions(rule=rule, criterion=Scaled()))[1]

    plain, scaled = run(1.0), run(1024.0)
    for name in PARAMETERS:
        one, other = (sink.observed("gradient", name, 0)[0][1].stats for sink in (plain, scaled))
        assert one is not None
        assert other is not None
        assert other.l2 == pytest.approx(one.l2, rel=1e-5)


def test_a_layer_that_is_replaced_is_told_and_told_apart_by_identity() -> None:
    def replace(net: nn.Cell, step: int) -> None:
        if step == 1:
            net.second = nn.Dense(8, 2)

    _, sink = watched(lambda: by_functions(between=replace))
    holders = {parameter.name: parameter.optimizer for parameter in sink.only_network.parameters}
    assert holders == {
        "first.weight": "Momentum",
        "first.bias": "Momentum",
        "second.weight": "",
        "second.bias": "",
    }
    ids = {info.id for info, _ in sink.observed("weight", "second.weight")}
    assert len(ids) == 2


def test_layers_in_a_plain_list_are_told_as_not_registered_and_a_teacher_is_left_out() -> None:
    class Hiding(Net):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Dense(8, 8), nn.ReLU()]
            self.teacher = (nn.Dense(4, 2),)  # is fed the batch itself

        def construct(self, x: Tensor) -> Tensor:
            inner = self.act(self.first(x))
            for block in self.blocks:
                inner = block(inner)
            return self.second(inner) + ops.stop_gradient(self.teacher[0](x))

    plain = by_functions(Hiding)
    answer, sink = watched(lambda: by_functions(Hiding))
    assert answer == plain
    told = {parameter.name: parameter.registered for parameter in sink.only_network.parameters}
    assert told == {**dict.fromkeys(PARAMETERS, True), "blocks.0.weight": False, "blocks.0.bias": False}
    assert sink.observed("output", "blocks.0", step=1)


def test_optimizers_of_mint_are_optimizers_too() -> None:
    def rule(parameters: Any) -> nn.Cell:
        return mint.optim.SGD(parameters, lr=0.1, momentum=0.9)

    plain = by_functions(rule=rule)
    answer, sink = watched(lambda: by_functions(rule=rule))
    assert answer == plain
    assert len(sink.named("updated")) == STEPS
    assert sink.scalars["lr"] == pytest.approx(0.1)
    assert {info.name for info, _ in sink.observed("gradient")} == set(PARAMETERS)


def test_gradients_of_inputs_alone_are_no_training() -> None:
    def run() -> Any:
        net = new_net()
        slope = ms.grad(lambda x: net(x).sum())
        return [slope(x).asnumpy().tobytes() for x, _ in batches()]

    plain = run()
    answer, sink = watched(run)
    assert answer == plain
    assert not sink.named("backward")
    assert not sink.named("loss")


def test_the_operator_that_made_a_prediction_is_known() -> None:
    class Classifier(Net):
        def construct(self, x: Tensor) -> Tensor:
            return ops.softmax(super().construct(x), -1)

    _, sink = watched(lambda: by_functions(Classifier, criterion=nn.CrossEntropyLoss()))
    values = sink.events("loss")[0].values
    assert values["function"] == "cross_entropy"
    assert values["prediction_from"] == "softmax"
    assert values["prediction_row_sum_max"] == pytest.approx(1.0, rel=1e-5)


def test_a_scaler_inside_jit_is_compiled_as_mindspore_wrote_it() -> None:
    def run() -> Any:
        scaler = DynamicLossScaler(1024, 2, 100)

        @ms.jit
        def scaled(loss: Tensor) -> Tensor:
            return scaler.scale(loss)

        return [number(scaled(Tensor(float(value), ms.float32))) for value in (1, 2)]

    assert watched(run)[0] == run() == [1024.0, 2048.0]


def test_a_loss_scale_manager_of_a_model_is_found() -> None:
    def run() -> None:
        ms.FixedLossScaleManager(1024.0, drop_overflow_update=False)

    _, sink = watched(run)
    (part,) = [part for part in sink.parts.values() if part.kind == "scaler"]
    assert part.type == "FixedLossScaleManager"
    assert part.settings == {"loss_scale": 1024.0, "drop_overflow_update": False}


def test_a_loss_function_is_found_under_whatever_name_and_compiled_as_mindspore_wrote_it() -> None:
    def run() -> Any:
        net = new_net()
        mine = ops.mse_loss  # as `from mindspore.ops import mse_loss` would have it

        @ms.jit
        def compiled(x: Tensor, y: Tensor) -> Tensor:
            return mine(net(x), y)

        x, y = next(batches())
        gradient = ms.value_and_grad(lambda x, y: mine(net(x), y), None, net.trainable_params())
        return number(compiled(x, y)), number(gradient(x, y)[0])

    plain = run()
    answer, sink = watched(run)
    assert answer == plain
    (event,) = sink.events("loss")
    assert event.values["function"] == "mse_loss"
    assert event.values["prediction_shape"] == "8x2"


def test_at_level_op_each_operator_has_its_line_and_its_gradient() -> None:
    class Rooted(Net):
        def construct(self, x: Tensor) -> Tensor:
            return ops.sqrt(ops.abs(super().construct(x)) + 1.0)

    sink = RecordingSink(Depth.ALL, "op")
    adapter = MindSporeAdapter()
    adapter.attach(sink)
    try:
        by_functions(Rooted)
    finally:
        adapter.detach()
    assert sink.failures == []
    (root,) = {info for info, _ in sink.observed("operator", step=1) if info.op == "ops.sqrt"}
    assert root.source is not None
    assert "ops.sqrt(ops.abs(" in root.source.code
    assert root.network == "net"
    slopes = {info.forward: info for info, _ in sink.observed("operator_gradient", step=1)}
    assert slopes[root.id].op == "ops.sqrt"
    assert slopes[root.id].source == root.source


def test_the_structure_of_a_step_shows_operators_with_their_cells_and_lines() -> None:
    sink = RecordingSink()
    sink.structure = True
    adapter = MindSporeAdapter()
    adapter.attach(sink)

    def over(net: nn.Cell, step: int) -> None:
        if step == 1:
            sink.structure = False
            adapter.depth_changed()

    try:
        by_functions(between=over)
    finally:
        adapter.detach()
    assert sink.failures == []
    (graph,) = sink.graphs
    scopes = [graph.scopes[node.scope].path for node in graph.nodes]
    assert {"first", "act", "second"} <= set(scopes)
    weights = [place for place, node in enumerate(graph.nodes) if node.kind == "parameter"]
    assert len(weights) == len(PARAMETERS)
    users = [node for node in graph.nodes if set(node.inputs) & set(weights)]
    assert users
    files = {graph.frames[place].file for node in users for place in graph.stacks[node.stack]}
    assert any(file.endswith("programs.py") for file in files)


def test_functions_that_mindspore_compiles_for_itself_are_no_step_to_run_again() -> None:
    """`all_finite` and `unscale` are under jit, and come between the gradient and the update."""
    net = new_net()
    update = nn.SGD(net.trainable_params(), 0.1)
    scaler = DynamicLossScaler(512.0, 2, 200)
    adapter = MindSporeAdapter()
    adapter.attach(RecordingSink())
    try:
        gradient = ms.value_and_grad(lambda x: scaler.scale(net(x).mean()), None, update.parameters)
        for x, _ in batches(2):
            loss, found = gradient(x)
            update(scaler.unscale(found))
            assert all_finite(found)
            scaler.unscale(loss)
            assert adapter.shadow is not None
            unit = adapter.shadow._unit
            assert unit is not None
            assert unit.kind == "gradient"
    finally:
        adapter.detach()


class Viewing(nn.Cell):
    """Views, which operators are given copies of, and indexing, which MindSpore's dispatch does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Dense(5, 4), nn.Dense(4, 1)

    def construct(self, x: Tensor) -> Tensor:
        hidden = ops.tanh(self.first(x))  # of three dimensions: Dense reshapes there and back
        return ops.exp(self.last(hidden[:, -1])) * x.swapaxes(1, 2).mean()


def test_operators_are_joined_through_views_and_indexing() -> None:
    ms.set_seed(1)
    net = Viewing()
    net.set_train()
    update = nn.SGD(net.trainable_params(), 0.1)
    gradient = ms.value_and_grad(lambda x: net(x).mean(), None, update.parameters)
    sink = RecordingSink()
    sink.structure = True
    adapter = MindSporeAdapter()
    adapter.attach(sink)
    try:
        update(gradient(Tensor(np.random.RandomState(0).randn(2, 3, 5).astype("f")))[1])
        sink.structure = False
        adapter.depth_changed()
    finally:
        adapter.detach()
    assert sink.failures == []
    (graph,) = sink.graphs
    assert [node.outputs for node in graph.nodes if node.kind == "input"] == [("float32[2, 3, 5]",)]

    def before(name: str) -> list[str]:
        (node,) = [node for node in graph.nodes if node.name == name]
        return [graph.nodes[place].name for place in node.inputs]

    assert before("Tanh") == ["reshape"]
    assert before("index") == ["Tanh"]
    (transposed,) = [node for node in graph.nodes if node.name == "transpose"]
    assert graph.nodes[transposed.inputs[0]].kind == "input", "not the reshape, which has the same address"
    assert all(node.outputs for node in graph.nodes), "types and ranges are no operators"


def test_the_structure_of_a_compiled_step_is_each_network_as_a_region() -> None:
    sink = RecordingSink()
    sink.structure = True
    adapter = MindSporeAdapter()
    adapter.attach(sink)
    try:
        by_jit()
    finally:
        adapter.detach()
    assert sink.failures == []
    (graph,) = sink.graphs
    assert [node.name for node in graph.nodes if node.kind == "region"] == ["compiled Net"]
    assert "compiled" in graph.note


def test_each_epoch_counts_its_batches_from_zero() -> None:
    def run() -> Any:
        rows = np.arange(32, dtype="f").reshape(16, 2)
        data = dataset.NumpySlicesDataset(rows, ["x"], shuffle=False, num_parallel_workers=1).batch(8)
        fresh = [b["x"].asnumpy().sum() for _ in range(2) for b in data.create_dict_iterator(num_epochs=1)]
        iterator = data.create_dict_iterator(num_epochs=2, output_numpy=True)
        return fresh + [b["x"].sum() for _ in range(2) for b in iterator]

    plain = run()
    answer, sink = watched(run)
    assert answer == plain
    assert [one.values["index"] for one in sink.events("batch")] == [0, 1] * 4
    assert {one.values["part"] for one in sink.events("batch")} == {"BatchDataset"}
    assert all("repeat_of" not in one.values for one in sink.events("batch"))


def test_a_batch_that_comes_twice_is_told() -> None:
    def run() -> None:
        rows = np.concatenate([np.arange(16, dtype="f").reshape(8, 2)] * 2)
        data = dataset.NumpySlicesDataset(rows, ["x"], shuffle=False, num_parallel_workers=1).batch(8)
        for _ in data.create_tuple_iterator(num_epochs=1):
            pass

    _, sink = watched(run)
    assert [one.values.get("repeat_of") for one in sink.events("batch")] == [None, 0]


def test_cells_that_a_backward_pass_computes_again_are_not_called_again() -> None:
    class Recomputed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.SequentialCell(nn.Dense(4, 8), nn.Tanh())
            self.last = nn.Dense(8, 2)
            self.block.recompute()

        def construct(self, x: Tensor) -> Tensor:
            return self.last(self.block(x))

    plain = by_functions(Recomputed)
    answer, sink = watched(lambda: by_functions(Recomputed))
    assert answer == plain
    assert len(sink.named("forward")) == STEPS
    names = [info.name for info, _ in sink.observed(step=1) if info.kind in ("output", "activation")]
    assert names == ["block.0", "block.1", "block", "last", ""]


def test_an_error_of_the_user_leaves_the_model_as_it_came() -> None:
    class Fails(Net):
        def construct(self, x: Tensor) -> Tensor:
            return self.first(self.first(x))

    def run() -> Any:
        net = new_net(Fails)
        x, _ = next(batches())
        with pytest.raises(ValueError, match=r"MatMul|shape"):
            net(x)
        return by_functions()

    plain = run()
    answer, sink = watched(run)
    assert answer == plain
    nodes = [info.node for info, _ in sink.observed(step=1) if info.kind in ("output", "activation")]
    assert nodes == ["first", "act", "second", ""]


def test_places_in_a_result_are_named_by_index_key_and_field() -> None:
    one = Tensor(1.0)
    assert [place for place, _ in tensors(one, "output")] == ["output.0"]
    nested = (one, {"mask": [one, "text"]}, None)
    assert [place for place, _ in tensors(nested, "output")] == ["output.0", "output.1.mask.0"]


SCRIPT = """
from tests.mindspore.programs import by_functions
from tensight.frameworks.mindspore.adapter import MindSporeAdapter
from tensight.testing.fakes import RecordingSink
sink, adapter = RecordingSink(), MindSporeAdapter()
adapter.attach(sink)
by_functions()
print(len(sink.named("updated")), len(sink.failures))
"""


def test_a_process_that_ends_under_the_adapter_ends_in_silence() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.split() == [str(STEPS), "0"]
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("pipeline", "shuffled"),
    [
        (lambda rows: dataset.NumpySlicesDataset(rows, ["x"], shuffle=False).batch(8), False),
        (lambda rows: dataset.NumpySlicesDataset(rows, ["x"], shuffle=True).batch(8), True),
        (lambda rows: dataset.NumpySlicesDataset(rows, ["x"]).batch(8), True),
        (lambda rows: dataset.NumpySlicesDataset(rows, ["x"], shuffle=False).shuffle(4).batch(8), True),
        (lambda rows: dataset.NumpySlicesDataset(rows, ["x"], sampler=dataset.SequentialSampler()).batch(8), False),
        (lambda rows: dataset.GeneratorDataset(lambda: iter(rows), ["x"]).batch(8), False),
    ],
    ids=["not", "asked for", "by default", "a stage of its own", "a sampler", "an iterator"],
)
def test_whether_the_data_is_shuffled_is_told(pipeline: Any, shuffled: bool) -> None:
    def run() -> None:
        for _ in pipeline(np.arange(32, dtype="f").reshape(16, 2)).create_tuple_iterator(num_epochs=1):
            pass

    _, sink = watched(run)
    (part,) = [part for part in sink.parts.values() if part.kind == "loader"]
    assert part.settings["shuffle"] is shuffled
