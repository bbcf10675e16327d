"""Hooks of MindSpore, one for each kind of moment. They are Python in PyNative mode; graphs compile their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import Tensor, nn


def on_tensor_gradient(tensor: Tensor, call: Callable[[Any], Any]) -> Any:
    return tensor.register_hook(call)


def on_forward_pre(cell: nn.Cell, call: Callable[[Any], Any]) -> Any:
    return cell.register_forward_pre_hook(lambda _, inputs: call(inputs))


def on_forward(cell: nn.Cell, call: Callable[[Any, Any], Any]) -> Any:
    return cell.register_forward_hook(lambda _, inputs, output: call(inputs, output))


def on_backward(cell: nn.Cell, call: Callable[[Any, Any], Any]) -> Any:
    return cell.register_backward_hook(lambda _, inputs, outputs: call(inputs, outputs))


def on_output_gradient(cell: nn.Cell, call: Callable[[Any], Any]) -> Any:
    """The gradient of the output, seen and changed where it arrives."""

    def arrived(_: nn.Cell, gradients: Any) -> Any:
        many = isinstance(gradients, tuple)
        first = gradients[0] if many and gradients else gradients
        changed = call(first)
        if changed is None:
            return None
        return (changed, *gradients[1:]) if many else changed

    return cell.register_backward_pre_hook(arrived)


def saved_tensors(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Any:
    return mindspore.saved_tensors_hooks(pack, unpack)
