"""Taking hold of a MindSpore model outside a training, in eager (PyNative) mode."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn

from tensight.frameworks.hands import Array, Heard
from tensight.frameworks.mindspore.networks import is_activation, own_tensors, settings_of
from tensight.frameworks.mindspore.values import copied, dtype_name
from tensight.records import Module


class MindSporeHands:
    """Implements `tensight.frameworks.hands.Hands`."""

    name = "mindspore"

    def version(self) -> str:
        return str(mindspore.__version__)

    def owns(self, model: object) -> bool:
        return isinstance(model, nn.Cell)

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, Tensor)

    def numpy(self, tensor: Any) -> Array:
        return copied(tensor)

    def dtype(self, tensor: Any) -> str:
        return dtype_name(tensor)

    def tensor(self, array: Array, dtype: str, model: Any) -> Any:
        return Tensor(np.ascontiguousarray(array).reshape(array.shape)).astype(getattr(mindspore, dtype))

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        return list(model.cells_and_names())

    def record(self, path: str, module: Any) -> Module:
        return Module(path, type(module).__name__, is_activation(module), None, settings_of(module))

    def weights(self, model: Any) -> dict[str, Any]:
        return {
            f"{path}.{slot}" if path else slot: value
            for path, cell in model.cells_and_names()
            for slot, value, _ in own_tensors(cell)
        }

    def put(self, tensor: Any, array: Array) -> None:
        value = Tensor(np.ascontiguousarray(array).reshape(tensor.shape)).astype(tensor.dtype)
        tensor.set_data(value) if hasattr(tensor, "set_data") else tensor.assign_value(value)

    def training(self, model: Any) -> bool:
        return bool(model.training)

    def compiled(self, model: Any) -> bool:
        return mindspore.get_context("mode") == mindspore.GRAPH_MODE

    def as_compiled(self, model: Any, part: Any) -> Any:
        return part  # in graph mode every outermost cell is compiled

    def call(self, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        with self._unchanged(module):
            return module(*arguments, **keywords)

    def gradients(self, model: Any, work: Callable[[], Any]) -> tuple[float, dict[str, Any]]:
        parameters = {
            name: value for name, value in self.weights(model).items() if getattr(value, "requires_grad", False)
        }
        with self._unchanged(model):
            run = mindspore.value_and_grad(work, None, list(parameters.values()))
            loss, found = run()
        return float(loss.asnumpy()), dict(zip(parameters, found))

    @contextmanager
    def _unchanged(self, cell: Any) -> Iterator[None]:
        """Parameters and buffers of a cell are as before afterwards."""
        kept = [(value, value.asnumpy().copy()) for value in self._running(cell)]
        try:
            yield
        finally:
            for value, before in kept:
                self.put(value, before)

    def _running(self, cell: Any) -> list[Any]:
        return [value for _, part in cell.cells_and_names() for _, value, kind in own_tensors(part) if kind == "buffer"]

    @contextmanager
    def hearing(self, model: Any, heard: Heard) -> Iterator[None]:
        handles = []
        for path, cell in model.cells_and_names():

            def hook(of: Any, arguments: Any, result: Any, path: str = path) -> None:
                heard(path, of, arguments if isinstance(arguments, tuple) else (arguments,), {}, result)

            handles.append(cell.register_forward_hook(hook))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def double(self, model: Any) -> Any | None:
        made = self.copy(model)
        if made is None:
            return None
        for parameter in made.get_parameters():
            if parameter.dtype in (mindspore.float32, mindspore.float16, mindspore.bfloat16):
                parameter.set_dtype(mindspore.float64)
        return made

    def copy(self, model: Any) -> Any | None:
        try:
            return copy.deepcopy(model)
        except Exception:  # cells may hold what cannot be copied
            return None

    def random_states(self) -> dict[str, Array]:
        return {"mindspore": np.array([mindspore.get_seed() or 0], np.int64)}

    def set_random_states(self, states: Mapping[str, Array]) -> None:
        if "mindspore" in states and int(states["mindspore"][0]):
            mindspore.set_seed(int(states["mindspore"][0]))
