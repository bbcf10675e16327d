"""Activation functions that are called as functions, methods or operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mindspore
from mindspore import Tensor

from tensight.frameworks.mindspore.watching import Watching

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

# operator of MindSpore → the function's name
OPERATORS = {
    "ReLU": "relu", "InplaceReLU": "relu", "ReLU6": "relu6", "LeakyReLUExt": "leaky_relu", "PReLU": "prelu",
    "Elu": "elu", "EluExt": "elu", "CeLU": "celu", "SeLU": "selu", "SeLUExt": "selu", "GeLU": "gelu", "GeluExt": "gelu",
    "FastGeLU": "fast_gelu", "SiLU": "silu", "InplaceSiLU": "silu", "Mish": "mish", "MishExt": "mish",
    "Sigmoid": "sigmoid", "LogSigmoid": "log_sigmoid", "HSigmoid": "hardsigmoid", "HSwish": "hardswish",
    "Hardtanh": "hardtanh", "HShrink": "hardshrink", "SoftShrink": "softshrink", "Softsign": "softsign",
    "Softplus": "softplus", "SoftplusExt": "softplus", "Tanh": "tanh", "InplaceTanh": "tanh", "Softmax": "softmax",
    "LogSoftmax": "log_softmax", "LogSoftmaxExt": "log_softmax", "GLU": "glu",
}  # fmt: skip


class Functions:
    """Listens to MindSpore's own operator dispatch while a model runs.

    Replacing functions such as `ops.relu` would be seen by the graph compiler; the dispatch is not.
    """

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self._mode = self._make()

    def push(self) -> bool:
        """Begin to listen; False when this MindSpore cannot."""
        if self._mode is None:
            self._watching.gap(
                "activation functions", "this MindSpore has no operator dispatch", "use a newer MindSpore, or cells"
            )
            return False
        self._mode.__enter__()
        return True

    def pop(self) -> None:
        self._mode.__exit__(None, None, None)

    def _make(self) -> Any:
        base: Any = getattr(mindspore, "MsDispatchMode", None)
        if base is None:
            return None
        seen = self._seen
        probe = self._watching.probe

        class Listening(base):
            def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
                result = func(*args)
                if func.name in OPERATORS:
                    probe("activation function", seen, OPERATORS[func.name], result)
                return result

        return Listening()

    def _seen(self, function: str, result: Any) -> None:
        cells = self._cells
        if not cells.stack or self._watching.busy or not isinstance(result, Tensor):
            return
        frame = cells.stack[-1]
        if frame.cell.activation:
            return  # the cell's own output says it
        place = f"{function}.{frame.count(function)}"
        slot = cells.slot(frame.cell, "activation", place, frame.call, result, function)
        self._watching.look(slot, result, cells.phase)
        if cells.phase == "forward":
            cells.losses.made(result, function)
