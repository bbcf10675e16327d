"""Taking hold of a PyTorch model outside a training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from tensight.frameworks.hands import Array, Heard
from tensight.frameworks.torch.describe import module_record
from tensight.frameworks.torch.statistics import dtype_name
from tensight.frameworks.torch.watching import to_numpy
from tensight.frameworks.torch.wrappers import is_compiled, stripped, walk
from tensight.records import Module


class TorchHands:
    """Implements `tensight.frameworks.hands.Hands`."""

    name = "torch"

    def version(self) -> str:
        return str(torch.__version__)

    def owns(self, model: object) -> bool:
        return isinstance(model, nn.Module)

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, torch.Tensor)

    def numpy(self, tensor: Any) -> Array:
        return to_numpy(tensor)

    def dtype(self, tensor: Any) -> str:
        return dtype_name(tensor.dtype)

    def tensor(self, array: Array, dtype: str, model: Any) -> Any:
        wanted = getattr(torch, dtype)
        first = next(iter(stripped(model).parameters()), None)
        device = first.device if first is not None else torch.device("cpu")
        return torch.from_numpy(np.ascontiguousarray(array).copy()).to(wanted).reshape(array.shape).to(device)

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        return list(walk(model))

    def record(self, path: str, module: Any) -> Module:
        return module_record(path, module, None)

    def weights(self, model: Any) -> dict[str, Any]:
        bare = stripped(model)
        own = dict(bare.named_parameters(remove_duplicate=False))
        return {**own, **dict(bare.named_buffers(remove_duplicate=False))}

    def put(self, tensor: Any, array: Array) -> None:
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(array).copy()).reshape(tensor.shape))

    def training(self, model: Any) -> bool:
        return bool(stripped(model).training)

    def compiled(self, model: Any) -> bool:
        return isinstance(model, nn.Module) and is_compiled(model)

    def as_compiled(self, model: Any, part: Any) -> Any:
        context = getattr(model, "dynamo_ctx", None)
        return context(part) if context is not None else torch.compile(part)

    def call(self, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        buffers = [(buffer, buffer.clone()) for buffer in stripped(module).buffers()]
        state = torch.get_rng_state()
        try:
            with torch.no_grad():
                return module(*arguments, **keywords)
        finally:
            torch.set_rng_state(state)
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

    def gradients(self, model: Any, work: Callable[[], Any]) -> tuple[float, dict[str, Any]]:
        bare = stripped(model)
        buffers = [(buffer, buffer.clone()) for buffer in bare.buffers()]
        parameters = {name: one for name, one in bare.named_parameters() if one.requires_grad}
        state = torch.get_rng_state()
        try:
            with torch.enable_grad():
                loss = work()
                found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            named = {name: gradient for name, gradient in zip(parameters, found) if gradient is not None}
            return float(loss.detach()), named
        finally:
            torch.set_rng_state(state)
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

    @contextmanager
    def hearing(self, model: Any, heard: Heard) -> Iterator[None]:
        handles = []
        for path, module in walk(model):

            def hook(of: Any, arguments: Any, keywords: Any, result: Any, path: str = path) -> None:
                heard(path, of, arguments, keywords, result)

            handles.append(module.register_forward_hook(hook, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def double(self, model: Any) -> Any | None:
        made = self.copy(model)
        return None if made is None else made.double()

    def copy(self, model: Any) -> Any | None:
        try:
            return copy.deepcopy(stripped(model))
        except Exception:  # parameters that are not leaves, handles of libraries: many things cannot be copied
            return None

    def random_states(self) -> dict[str, Array]:
        return {"torch": torch.get_rng_state().numpy().copy()}

    def set_random_states(self, states: Mapping[str, Array]) -> None:
        if "torch" in states:
            torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
