"""The samples of the tutorial on debugging dynamic graphs, on both frameworks."""

from __future__ import annotations

import os
from typing import Any

import mindspore
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn, ops

import tensight


def test_synchronous_mode_by_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    calls: list[bool] = []
    monkeypatch.setattr(mindspore.runtime, "launch_blocking", lambda: calls.append(True))
    said = tensight.launch_blocking()
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", os.environ["CUDA_LAUNCH_BLOCKING"])
    assert os.environ["CUDA_LAUNCH_BLOCKING"] == "1"
    assert calls == [True]
    assert [line.partition(":")[0] for line in said] == ["torch", "mindspore"]


def test_a_hook_on_a_tensor_changes_its_gradient_in_mindspore() -> None:
    def hook_fn(grad: Any) -> Any:
        return grad * 2

    def hook_test(x: Any, y: Any) -> Any:
        z = x * y
        tensight.on_gradient(z, hook_fn)
        return z * y

    ms_grad = mindspore.value_and_grad(hook_test, grad_position=(0, 1))
    output = ms_grad(Tensor(1, mindspore.float32), Tensor(2, mindspore.float32))
    assert str(output) == (
        "(Tensor(shape=[], dtype=Float32, value= 4), (Tensor(shape=[], dtype=Float32, value= 8), "
        "Tensor(shape=[], dtype=Float32, value= 6)))"
    )


def test_a_hook_on_a_tensor_changes_its_gradient_in_torch() -> None:
    x, y = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    z = x * y
    tensight.on_gradient(z, lambda grad: grad * 2)
    out = z * y
    out.backward()
    assert (out.item(), x.grad.item(), y.grad.item()) == (4, 8, 6)


def test_a_gradient_in_the_middle_of_a_function_is_seen_in_mindspore(capsys: pytest.CaptureFixture[str]) -> None:
    def hook_test(x: Any, y: Any) -> Any:
        z = x * y
        tensight.on_gradient(z, lambda grad: print(grad))
        return z * y

    inputs = (Tensor(1, mindspore.float32), Tensor(2, mindspore.float32))
    output = mindspore.value_and_grad(hook_test, grad_position=(0, 1))(*inputs)
    ours = capsys.readouterr().out
    hook = ops.HookBackward(lambda grad: print(grad[0]))

    def as_in_mindspore(x: Any, y: Any) -> Any:
        return hook(x * y) * y

    assert str(mindspore.value_and_grad(as_in_mindspore, grad_position=(0, 1))(*inputs)) == str(output)
    assert ours == capsys.readouterr().out == "2.0\n"


def test_a_gradient_in_the_middle_of_a_function_is_seen_in_torch(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    z = x * y
    tensight.on_gradient(z, lambda grad: print(grad.item()))
    (z * y).backward()
    assert capsys.readouterr().out == "2.0\n"
    assert (x.grad.item(), y.grad.item()) == (4, 4)


class CellNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def construct(self, x: Any) -> Any:
        x = x + x
        return self.relu(x)


class ModuleNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:
        x = x + x
        return self.relu(x)


def backward_hook_fn(cell_id: str, grad_input: Any, grad_output: Any) -> None:
    print("backward input: ", [float(one) for one in grad_input])
    print("backward output: ", [float(one) for one in grad_output])


BOTH_LINES = "backward input:  [1.0]\nbackward output:  [1.0]\n"


def test_a_modules_gradients_are_seen_in_mindspore(capsys: pytest.CaptureFixture[str]) -> None:
    net = CellNet()
    hooks = tensight.on_backward("relu", backward_hook_fn, net)
    gradient = mindspore.value_and_grad(net, grad_position=0)
    value, found = gradient(Tensor(np.ones([1]).astype(np.float32)))
    assert capsys.readouterr().out == BOTH_LINES
    assert (float(value), float(found)) == (2, 2)
    hooks.remove()
    gradient(Tensor(np.ones([1]).astype(np.float32)))
    assert capsys.readouterr().out == ""


def test_a_modules_gradients_are_seen_in_torch(capsys: pytest.CaptureFixture[str]) -> None:
    net = ModuleNet()
    hooks = tensight.on_backward("relu", backward_hook_fn, net)
    x = torch.ones(1, requires_grad=True)
    out = net(x)
    out.backward()
    assert capsys.readouterr().out == BOTH_LINES
    assert (out.item(), x.grad.item()) == (2, 2)
    hooks.remove()
    net(x).backward()
    assert capsys.readouterr().out == ""
