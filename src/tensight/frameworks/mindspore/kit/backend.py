"""MindSpore, as the training kit sees it (`tensight.kit.backend.Backend`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn

from tensight.frameworks import handles
from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore.kit import hooks, operators
from tensight.frameworks.mindspore.kit.trainer import MindSporeTrainer, batches
from tensight.frameworks.mindspore.values import copied


class MindSporeBackend:
    """See `tensight.kit.backend.Backend`."""

    name = "mindspore"
    on_tensor_gradient = staticmethod(hooks.on_tensor_gradient)
    on_forward_pre = staticmethod(hooks.on_forward_pre)
    on_forward = staticmethod(hooks.on_forward)
    on_backward = staticmethod(hooks.on_backward)
    on_output_gradient = staticmethod(hooks.on_output_gradient)
    on_parameter = staticmethod(handles.on_parameter)
    saved_tensors = staticmethod(hooks.saved_tensors)
    observe = staticmethod(operators.observe)
    batches = staticmethod(batches)

    def owns(self, value: object) -> bool:
        return isinstance(value, (Tensor, nn.Cell))

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, Tensor)

    def array(self, tensor: Tensor) -> Array:
        return copied(tensor)

    def dtype(self, tensor: Tensor) -> str:
        return str(tensor.dtype).lower()

    def trainer(self, network: nn.Cell, loss_fn: Any, optimizer: Any) -> MindSporeTrainer:
        return MindSporeTrainer(network, loss_fn, optimizer)

    def batch_count(self, dataset: Any) -> int | None:
        if hasattr(dataset, "get_dataset_size"):
            size = dataset.get_dataset_size()
            return int(size) if size > 0 else None
        try:
            return len(dataset)
        except TypeError:
            return None

    def state(self, network: nn.Cell) -> dict[str, Array]:
        return {name: np.ascontiguousarray(copied(value)) for name, value in network.parameters_and_names()}

    def load_state(self, network: nn.Cell, values: Mapping[str, Array]) -> None:
        for name, parameter in network.parameters_and_names():
            if name in values:
                parameter.set_data(Tensor(np.ascontiguousarray(values[name]), parameter.dtype))

    def remember(self, network: nn.Cell, optimizer: Any) -> Callable[[], None]:
        held = {id(one): one for cell in (network, optimizer) if cell is not None for one in cell.get_parameters()}
        values = {key: copied(one) for key, one in held.items()}
        random = mindspore.get_rng_state()

        def restore() -> None:
            mindspore.set_rng_state(random)
            for key, one in held.items():
                one.set_data(Tensor(values[key], one.dtype))

        return restore

    def native(self, network: nn.Cell, optimizer: Any, info: Mapping[str, Any]) -> Callable[[Path], None]:
        held = dict(network.parameters_and_names())
        if optimizer is not None:
            for name, parameter in optimizer.parameters_and_names():
                held.setdefault(parameter.name or name, parameter)
        content = [{"name": name, "data": Tensor(copied(value), value.dtype)} for name, value in held.items()]
        extra = {key: value for key, value in info.items() if isinstance(value, (int, float, bool, str))}
        return lambda path: mindspore.save_checkpoint(content, str(path), append_dict=extra)

    def bad_values(self, network: nn.Cell) -> list[tuple[str, str, int, int]]:
        """Weights alone: MindSpore hands gradients out and keeps none."""
        found = []
        for name, value in network.parameters_and_names():
            array = copied(value)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                found.append((name, "weight", int(np.isnan(array).sum()), int(np.isinf(array).sum())))
        return found

    def modules(self, network: nn.Cell) -> Iterable[tuple[str, str, Any]]:
        return [(path, type(cell).__name__, cell) for path, cell in network.cells_and_names()]

    def parameters(self, network: nn.Cell) -> Iterable[tuple[str, Any]]:
        return [(name, value) for name, value in network.parameters_and_names() if value.requires_grad]

    def rate(self, optimizer: Any) -> float | None:
        rate = optimizer.learning_rate
        return float(rate.asnumpy()) if isinstance(rate, Tensor) and rate.size == 1 else None

    def set_rate(self, optimizer: Any, rate: float) -> None:
        held = optimizer.learning_rate
        if isinstance(held, Parameter):
            held.set_data(Tensor(rate, held.dtype))

    def scale_of(self, scaler: Any) -> float | None:
        value = getattr(scaler, "scale_value", None)
        if isinstance(value, Tensor):
            return float(value.asnumpy())
        if hasattr(scaler, "get_loss_scale"):
            return float(scaler.get_loss_scale())
        return None if value is None else float(value)

    def launch_blocking(self) -> str:
        mindspore.runtime.launch_blocking()
        return "MindSpore runs one operator after the other: an error now comes from its own line"

    def gather(self, value: Any) -> list[Any]:
        from mindspore import communication

        if not communication.GlobalComm.INITED or communication.get_group_size() == 1:
            return [value]
        from mindspore.mint import distributed

        values: list[Any] = [None] * communication.get_group_size()
        distributed.all_gather_object(values, value)
        return values


BACKEND = MindSporeBackend()
