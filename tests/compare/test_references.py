"""A reference is recorded once and fed to another model; every module that computes something else is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
import torch
from torch import nn

import tensight
from tensight.errors import UsageError
from tests.compare.training import Former, Seeing, other_order, setting, weight


def made(kind: type[Any] = Former, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = kind().to(dtype)
    torch.manual_seed(1)
    x, _ = kind.batch()
    return model, x.to(dtype) if x.is_floating_point() else x


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Path]:
    folder = tmp_path_factory.mktemp("references")
    found = {}
    for kind in (Former, Seeing):
        for dtype in (torch.float32, torch.bfloat16):
            model, x = made(kind, dtype)
            found[kind, dtype] = folder / f"{kind.__name__}-{dtype}"
            tensight.reference(found[kind, dtype], model, x)
    return found


def test_recording_leaves_model_gradients_and_random_states_as_they_were(tmp_path: Path) -> None:
    model, x = made(Seeing)
    model.head.weight.grad = torch.ones_like(model.head.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    drawn = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    tensight.reference(tmp_path / "ref", model, x, loss=lambda out: out.square().mean())
    assert (torch.rand(1), np.random.rand(), random.random()) == drawn
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert torch.equal(model.head.weight.grad, torch.ones_like(model.head.weight))
    assert not model._forward_hooks
    assert model.training


def test_a_reference_holds_inputs_weights_outputs_and_random_states(tmp_path: Path) -> None:
    model, x = made(Seeing)
    torch.manual_seed(11)
    expected = model(x)
    torch.manual_seed(11)
    state = torch.get_rng_state()
    reference = tensight.reference(tmp_path / "ref", model, x, loss=lambda out: out.square().mean())
    again = tensight.reference(tmp_path / "ref")
    assert np.array_equal(again.inputs[0], x.numpy())
    assert np.allclose(again.outputs[0], expected.detach().numpy(), atol=1e-6)
    assert np.array_equal(again.weights["c1.weight"], model.c1.weight.detach().numpy())
    assert reference.loss == pytest.approx(float(expected.detach().square().mean()), rel=1e-5)
    torch.manual_seed(99)
    again.restore_random(model)
    assert torch.equal(torch.get_rng_state(), state)
    arguments, keywords = again.arguments(model)
    assert torch.equal(arguments[0], x)
    assert keywords == {}


def test_an_array_is_fed_like_a_tensor(tmp_path: Path) -> None:
    model, x = made(Seeing)
    of_tensor = tensight.reference(tmp_path / "tensor", model, x)
    of_array = tensight.reference(tmp_path / "array", model, x.numpy())
    np.testing.assert_array_equal(of_array.inputs[0], of_tensor.inputs[0])
    np.testing.assert_array_equal(of_array.outputs[0], of_tensor.outputs[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [Former, Seeing])
def test_the_same_model_is_identical_and_a_reordered_one_is_not_blamed(
    references: dict[Any, Path], kind: type[Any], dtype: torch.dtype
) -> None:
    model, _ = made(kind, dtype)
    assert tensight.reference(references[kind, dtype]).compare(model).verdict == "identical"
    if dtype is torch.float32:
        other_order(model)
        found = tensight.reference(references[kind, dtype]).compare(model)
        assert (found.faults, found.first_divergence) == ([], None)
        assert found.verdict in ("identical", "rounding")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_independent_fault_is_named(references: dict[Any, Path], dtype: torch.dtype) -> None:
    model, _ = made(Former, dtype)
    setting("blocks.0.ln1", eps=1e-3)(model)
    setting("blocks.1.act", approximate="tanh")(model)
    weight("blocks.2.fc2.weight", lambda w: w.flip(0))(model)
    found = tensight.reference(references[Former, dtype]).compare(model)
    assert found.verdict == "different"
    wrong = {fault.module: fault.likely_cause for fault in found.faults}
    assert set(wrong) == {"blocks.0.ln1", "blocks.1.act", "blocks.2.fc2"}
    assert "eps" in wrong["blocks.0.ln1"]
    assert "GELU" in wrong["blocks.1.act"]
    assert "order" in wrong["blocks.2.fc2"]


def test_floors_come_from_a_float64_twin_and_a_push_by_one_last_place(references: dict[Any, Path]) -> None:
    notes = json.loads((references[Former, torch.float32] / "reference.json").read_text())
    assert "float64 twin" in notes["floors"]
    assert "one last place" in notes["floors"]
    floors = {call["path"]: call for call in notes["calls"]}
    last = floors["head"]
    assert 2**-24 <= last["local"] <= last["floor"] * 4 < 1e-5  # what piles up is more than one module's own


def test_a_wrong_gradient_is_found_where_the_forward_pass_agrees(tmp_path: Path) -> None:
    model, x = made(Seeing)

    def loss(out: Any) -> Any:
        return out.square().mean()

    reference = tensight.reference(tmp_path / "ref", model, x, loss=loss)
    assert reference.compare(model, loss=loss).verdict == "identical"

    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value.view_as(value)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 0.9

    model.bn.register_forward_hook(lambda module, given, out: Cut.apply(out))
    first = reference.compare(model, loss=loss).first_divergence
    assert first is not None
    assert (first.phase, first.module) == ("backward", "bn")


def test_compiled_code_is_judged_by_float64_and_the_wrong_module_named(tmp_path: Path) -> None:
    torch._dynamo.reset()
    model, x = made(Seeing)
    model.eval()
    reference = tensight.reference(tmp_path / "ref", model, x)
    right = reference.compare(torch.compile(model, backend="eager"))
    assert (right.verdict, right.faults) == ("identical", [])

    def wrong(graph: Any, inputs: Any) -> Any:
        """A compiler that gets every leaky ReLU wrong."""
        for node in graph.graph.nodes:
            if "leaky_relu" in str(node.target):
                node.args = (node.args[0], 0.02, *node.args[2:])
        graph.recompile()
        return graph.forward

    found = reference.compare(torch.compile(model, backend=wrong))
    assert found.verdict == "different"
    assert [fault.module for fault in found.faults] == ["relu"]
    torch._dynamo.reset()


class Port(mindspore.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = mindspore.nn.Conv2d(3, 6, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn = mindspore.nn.BatchNorm2d(6)
        self.relu = mindspore.nn.LeakyReLU(0.01)
        self.c2 = mindspore.nn.Conv2d(6, 8, 3, stride=2, pad_mode="valid", has_bias=True)
        self.head = mindspore.nn.Dense(8, 5)

    def construct(self, x: Any) -> Any:
        return self.head(self.c2(self.relu(self.bn(self.c1(x)))).mean((2, 3)))


def test_weights_and_batch_go_into_the_other_framework_and_back(references: dict[Any, Path], tmp_path: Path) -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    reference = tensight.reference(references[Seeing, torch.float32])
    port = Port().set_train()
    assert reference.compare(port).first_divergence is not None
    assert reference.carry_over(port) == ["bn.num_batches_tracked"]
    assert np.array_equal(port.c1.weight.asnumpy(), reference.weights["c1.weight"])
    found = reference.compare(port)
    assert (found.verdict, found.faults) == ("rounding", [])
    arguments, _ = reference.arguments(port)
    back = tensight.reference(tmp_path / "ported", port, *arguments)
    model, _ = made(Seeing)
    assert back.compare(model).faults == []


def test_what_is_wrong_is_said_in_one_sentence(references: dict[Any, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no reference"):
        tensight.reference(tmp_path / "nothing")
    with pytest.raises(UsageError, match="no model"):
        tensight.reference(tmp_path / "ref", 3)
    reference = tensight.reference(references[Seeing, torch.float32])
    with pytest.raises(UsageError, match="no counterpart"):
        reference.carry_over(nn.Linear(3, 3))
    found = reference.compare(nn.Linear(3, 3))
    assert found.verdict == "not_comparable"
    assert "cannot be called" in found.reason
