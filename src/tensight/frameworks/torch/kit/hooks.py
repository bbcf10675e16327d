"""Hooks of PyTorch, one for each kind of moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def on_tensor_gradient(tensor: torch.Tensor, call: Callable[[Any], Any]) -> Any:
    return tensor.register_hook(call)


def on_forward_pre(module: nn.Module, call: Callable[[Any], Any]) -> Any:
    return module.register_forward_pre_hook(lambda _, inputs: call(inputs))


def on_forward(module: nn.Module, call: Callable[[Any, Any], Any]) -> Any:
    return module.register_forward_hook(lambda _, inputs, output: call(inputs, output))


def on_backward(module: nn.Module, call: Callable[[Any, Any], Any]) -> Any:
    return module.register_full_backward_hook(lambda _, inputs, outputs: call(inputs, outputs))


def on_output_gradient(module: nn.Module, call: Callable[[Any], Any]) -> Any:
    """The gradient of the output, seen and changed where it arrives."""

    def forward(_: nn.Module, inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        if isinstance(first, torch.Tensor) and first.requires_grad:
            first.register_hook(call)

    return module.register_forward_hook(forward)


def saved_tensors(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Any:
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
