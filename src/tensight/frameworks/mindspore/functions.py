"""Activation functions that are called as functions, methods or operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindspore import Tensor

from tensight.frameworks.mindspore.attention import STEPS, Attention
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source

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

_MOST_CUTS = 16


class Functions:
    """Hears of every operator while a model runs, and tells of those that are activation functions.

    Replacing functions such as `ops.relu` would be seen by the graph compiler; the dispatch is not.
    """

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self.attention = Attention(watching, cells)
        self._cuts: set[tuple[str, int]] = set()  # lines that were told

    def ran(self, name: str, args: Any, result: Any) -> None:
        """An operator has run."""
        watching = self._watching
        if not watching.all:
            return
        function = OPERATORS.get(name)
        if function is not None:
            watching.probe("activation function", self._seen, function, args, result)
        elif watching.busy or watching.backward or watching.sink.step >= STEPS:
            return
        elif name == "StopGradient":
            watching.probe("cut", self._cut)
        else:
            watching.probe("attention", self.attention.ran, name, args, result)

    def _cut(self) -> None:
        """A line inside a model ends the way of gradients: whether that is meant, others judge.

        Outside of models it usually is: a discriminator is shown what a generator has made.
        """
        source = user_source()
        if (
            not self._cells.stack
            or source is None
            or (source.file, source.line) in self._cuts
            or len(self._cuts) >= _MOST_CUTS
        ):
            return
        self._cuts.add((source.file, source.line))
        network, module = self._cells.where()
        self._watching.sink.event("cut", network, {"module": module, "function": "stop_gradient"}, source)

    def _seen(self, function: str, args: Any, result: Any) -> None:
        cells = self._cells
        if not cells.stack or self._watching.busy or not isinstance(result, Tensor):
            return
        frame = cells.stack[-1]
        if function == "softmax" and cells.phase == "forward":
            self.attention.made(result, args)
        if frame.cell.activation:
            return  # the cell's own output says it
        place = f"{function}.{frame.count(function)}"
        slot = cells.slot(frame.cell, "activation", place, frame.call, result, function)
        self._watching.look(slot, result, cells.phase)
        if cells.phase == "forward":
            cells.losses.made(result, function)
