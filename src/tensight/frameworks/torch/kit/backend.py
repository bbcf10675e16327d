"""PyTorch, as the training kit sees it (`tensight.kit.backend.Backend`)."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from tensight.frameworks import handles
from tensight.frameworks.adapter import Array
from tensight.frameworks.torch.kit import hooks, operators
from tensight.frameworks.torch.kit.trainer import TorchTrainer
from tensight.frameworks.torch.statistics import dtype_name
from tensight.frameworks.torch.watching import to_numpy
from tensight.frameworks.torch.wrappers import stripped, walk


class TorchBackend:
    """See `tensight.kit.backend.Backend`."""

    name = "torch"
    on_tensor_gradient = staticmethod(hooks.on_tensor_gradient)
    on_forward_pre = staticmethod(hooks.on_forward_pre)
    on_forward = staticmethod(hooks.on_forward)
    on_backward = staticmethod(hooks.on_backward)
    on_output_gradient = staticmethod(hooks.on_output_gradient)
    on_parameter = staticmethod(handles.on_parameter)
    saved_tensors = staticmethod(hooks.saved_tensors)
    observe = staticmethod(operators.observe)

    def owns(self, value: object) -> bool:
        return isinstance(value, (torch.Tensor, nn.Module, Optimizer)) or isinstance(
            getattr(value, "optimizer", None), Optimizer
        )

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, torch.Tensor)

    def array(self, tensor: torch.Tensor) -> Array:
        return to_numpy(tensor.detach())

    def dtype(self, tensor: torch.Tensor) -> str:
        return dtype_name(tensor.dtype)

    def trainer(self, network: nn.Module, loss_fn: Any, optimizer: Any) -> TorchTrainer:
        return TorchTrainer(network, loss_fn, optimizer)

    def batches(self, dataset: Any) -> Iterator[Any]:
        return iter(dataset)

    def batch_count(self, dataset: Any) -> int | None:
        try:
            return len(dataset)
        except TypeError:
            return None

    def state(self, network: nn.Module) -> dict[str, Array]:
        return {
            name: np.array(to_numpy(value.detach()), order="C", copy=True)
            for name, value in stripped(network).state_dict().items()
            if isinstance(value, torch.Tensor)
        }

    def load_state(self, network: nn.Module, values: Mapping[str, Array]) -> None:
        held = stripped(network).state_dict()
        stripped(network).load_state_dict(
            {
                name: torch.as_tensor(np.ascontiguousarray(value)).to(held[name].dtype) if name in held else value
                for name, value in values.items()
            }
        )

    def remember(self, network: nn.Module, optimizer: Any) -> Callable[[], None]:
        weights = _copied(stripped(network).state_dict())
        states = None if optimizer is None else copy.deepcopy(optimizer.state_dict())
        gradients = [(one, None if one.grad is None else one.grad.clone()) for one in network.parameters()]
        random = torch.get_rng_state()
        device = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None

        def restore() -> None:
            torch.set_rng_state(random)
            if device is not None:
                torch.cuda.set_rng_state_all(device)
            stripped(network).load_state_dict(weights)
            if states is not None:
                optimizer.load_state_dict(states)
            for parameter, gradient in gradients:
                parameter.grad = gradient

        return restore

    def native(self, network: nn.Module, optimizer: Any, info: Mapping[str, Any]) -> Callable[[Path], None]:
        content: dict[str, Any] = {"model": _copied(stripped(network).state_dict())}
        if optimizer is not None:
            content["optimizer"] = _copied(optimizer.state_dict())
        content.update(info)
        return lambda path: torch.save(content, path)

    def bad_values(self, network: nn.Module) -> list[tuple[str, str, int, int]]:
        found = []
        for kind in ("gradient", "weight"):
            for name, parameter in stripped(network).named_parameters():
                tensor = parameter.grad if kind == "gradient" else parameter
                if tensor is not None and not bool(torch.isfinite(tensor.detach()).all()):
                    nan = int(torch.isnan(tensor).sum())
                    found.append((name, kind, nan, int(torch.isinf(tensor).sum())))
        return found

    def modules(self, network: nn.Module) -> Iterable[tuple[str, str, Any]]:
        return [(path, type(module).__name__, module) for path, module in walk(network)]

    def parameters(self, network: nn.Module) -> Iterable[tuple[str, Any]]:
        return [(name, value) for name, value in stripped(network).named_parameters() if value.requires_grad]

    def rate(self, optimizer: Any) -> float | None:
        rate = optimizer.param_groups[0].get("lr")
        return None if rate is None else float(rate)

    def set_rate(self, optimizer: Any, rate: float) -> None:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def scale_of(self, scaler: Any) -> float | None:
        return float(scaler.get_scale()) if hasattr(scaler, "get_scale") else None

    def launch_blocking(self) -> str:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            return (
                "CUDA runs already and reads CUDA_LAUNCH_BLOCKING only at its start: set it before the first GPU call"
            )
        if not torch.cuda.is_available():
            return (
                "PyTorch runs operators of the CPU one after the other anyway; for GPUs CUDA_LAUNCH_BLOCKING=1 is set"
            )
        return "CUDA_LAUNCH_BLOCKING=1 is set: a GPU operator's error now comes from its own line"

    def gather(self, value: Any) -> list[Any]:
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
            return [value]
        values: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(values, value)
        return values


def _copied(value: Any) -> Any:
    """Copies of all tensors, in the same containers."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    return value


BACKEND = TorchBackend()
