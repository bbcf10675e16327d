"""The loss: its value, and what is known of prediction and target."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor, nn

from tensight.frameworks.adapter import Array
from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.attention import shift
from tensight.frameworks.mindspore.values import number, view, widened
from tensight.frameworks.mindspore.watching import Slot, Watching, free_name
from tensight.frameworks.relation import MOST_AT_ONCE, Gathered
from tensight.frameworks.source import user_source
from tensight.records import Part
from tensight.records.event import Value

FIRST = 10  # steps whose loss is always described
_MOST_TOKENS = 1 << 20

# class of MindSpore → the name under which every framework's function goes
FUNCTIONS = {
    "CrossEntropyLoss": "cross_entropy",
    "SoftmaxCrossEntropyWithLogits": "cross_entropy",
    "NLLLoss": "nll_loss",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "L1LossExt": "l1_loss",
    "MAELoss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "KLDivLoss": "kl_div",
    "CTCLoss": "ctc_loss",
    "Softmax": "softmax",
    "SoftmaxExt": "softmax",
    "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid",
    "LogSigmoid": "log_sigmoid",
    "Tanh": "tanh",
    "ReLU": "relu",
}


class Losses:
    """Loss cells, and the number that a gradient is taken of."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._names: IdentityMap[nn.Cell, str] = IdentityMap()
        self._functions: set[str] = set()
        self._slots: dict[tuple[str, str], Slot] = {}
        self._made: tuple[int, str] = (0, "")  # address of the last activation, and what made it
        self._input: weakref.ref[Tensor] | None = None
        self._gathered = Gathered()  # inputs and labels, to ask whether they belong together
        self.network = ""  # that was called last
        self.tokens: list[Array] = []  # the whole numbers that the model was fed last; of the first steps only
        self.value: float | None = None
        self.by_hand: Callable[[float], None] | None = None  # told of a loss that no loss function made
        self._called = False  # a loss function, since the last backward pass
        self.factor = 1.0  # of the last loss: what a scaler multiplied it with
        self.scaled: tuple[weakref.ref[Tensor], float] | None = None  # a loss and what a scaler multiplied it with

    def forget_slots(self) -> None:
        """In a copy, for another sink: what was declared is not known to it."""
        self._slots.clear()

    def fed(self, tensor: Tensor, network: str) -> None:
        """A model was called with this."""
        self._input = weakref.ref(tensor)
        self.network = network
        self.tokens = []
        if self._watching.sink.step < FIRST and tensor.ndim == 2 and tensor.size <= _MOST_TOKENS:
            array = view(tensor)
            if array.dtype.kind in "iu":
                self.tokens = [array.copy()]

    def made(self, tensor: Tensor, function: str) -> None:
        """An activation gave this; a loss may be given it next.

        Only for tensors that a gradient is taken of: those stay in memory, so that their address is theirs alone.
        """
        self._made = (tensor.data_ptr(), FUNCTIONS.get(function, function))

    def called(self, cell: nn.Cell, args: Any, result: Any) -> None:
        """A loss cell has returned."""
        watching = self._watching
        self._called = True
        name = self._name(cell)
        given = [arg for arg in args if isinstance(arg, Tensor)]
        self._gather(given)
        if not (watching.all or watching.sink.step < FIRST) or not given:
            return
        function = type(cell).__name__
        self._tell_of(name, FUNCTIONS.get(function, function), str(getattr(cell, "reduction", "")), given, result)

    def function_called(self, function: str, args: Any, kwargs: Any, result: Any) -> None:
        """A loss function has returned."""
        watching = self._watching
        self._called = True
        given = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor)]
        self._gather(given)
        if function not in self._functions:
            self._functions.add(function)
            watching.sink.part(Part("loss", function, function, {}, user_source()))
        if (watching.all or watching.sink.step < FIRST) and given:
            reduction = kwargs.get("reduction")
            self._tell_of(function, function, reduction if isinstance(reduction, str) else "mean", given, result)

    def _gather(self, given: list[Tensor]) -> None:
        """Labels of the batch that the model was fed last, until the first samples are together."""
        fed = self._input() if self._input is not None else None
        if self._gathered.done or fed is None or len(given) < 2 or not 1 <= given[1].ndim <= 2:
            return
        target, inputs = view(given[1]), view(fed)
        if target.ndim == 2:
            if target.shape[1] != 1 or target.dtype.kind != "f":
                return
            target = target[:, 0]
        if inputs.dtype.kind != "f" or inputs.ndim < 2 or len(inputs) != len(target) or target.dtype.kind not in "iuf":
            return
        found = self._gathered.add(inputs[:MOST_AT_ONCE], target[:MOST_AT_ONCE])
        if found is not None:
            self._watching.sink.scalar("probe/label_information", found)

    def labels(self, cell: nn.Cell, target: Tensor) -> None:
        """A compiled step hands this to its loss: what the loss itself does is not seen."""
        function = type(cell).__name__
        values: dict[str, Value] = {"function": FUNCTIONS.get(function, function)}
        values |= describe_target(widened(view(target)))
        self._watching.sink.event("labels", self._name(cell), values, user_source())

    def _tell_of(self, name: str, function: str, reduction: str, given: list[Tensor], result: Any) -> None:
        watching = self._watching
        with np.errstate(all="ignore"):  # a loss of bad values is what we are here for
            values = describe([widened(view(tensor)) for tensor in given[:2]], reduction)
            if len(given) > 1:
                values |= shift(view(given[1]), self.tokens)
            values["target_equals_input"] = len(given) > 1 and self._equals_input(given[1])
        values["function"] = function
        address, made_by = self._made
        values["prediction_from"] = made_by if address and given[0].data_ptr() == address else ""
        if isinstance(result, Tensor):
            values["result_shape"] = shape_text(result.shape)
            values["value"] = number(result)
        watching.sink.event("loss", name, values, user_source())
        if watching.all:
            for kind, tensor in zip(("prediction", "target"), given):
                slot = self._slots.get((name, kind))
                if slot is None:
                    place = f"{name}.{kind}"
                    slot = watching.declare(kind, "", place, tensor, network=self.network, type=function)  # type: ignore[arg-type]
                    self._slots[name, kind] = slot
                watching.look(slot, tensor, "forward")

    def ended(self, output: Any) -> None:
        """What a gradient may be taken of was computed: remember it as a number, not as a tensor."""
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        self.value = number(first) if isinstance(first, Tensor) else None
        self.factor = 1.0
        if self.value is not None and self.scaled is not None and self.scaled[0]() is first:
            self.factor = self.scaled[1]
            self.value /= self.factor
        self.scaled = None

    def tell(self) -> None:
        """A backward pass begins: say its loss, once."""
        value, self.value = self.value, None
        called, self._called = self._called, False
        if value is None:
            return
        watching = self._watching
        watching.sink.loss(value)
        if self.by_hand is not None and not called:
            watching.probe("expression", self.by_hand, value)
        if watching.some:
            array = np.asarray(value)
            slot = self._slots.get((self.network, "loss"))
            if slot is None:
                slot = watching.declare("loss", "", "loss", array, network=self.network)
                self._slots[self.network, "loss"] = slot
            watching.look(slot, array, "forward")

    def _equals_input(self, target: Tensor) -> bool:
        given = self._input() if self._input is not None else None
        if given is None or given.shape != target.shape or given.dtype != target.dtype:
            return False
        return given is target or bool(np.array_equal(view(given), view(target)))

    def _name(self, cell: nn.Cell) -> str:
        known = self._names.get(cell)
        if known is not None:
            return known
        base = type(cell).__name__
        name = self._names[cell] = free_name(base, (name for _, name in self._names.items()))
        settings: dict[str, Value] = {}
        for key in ("reduction", "sparse", "label_smoothing"):
            value = getattr(cell, key, None)
            if isinstance(value, (bool, int, float, str)):
                settings[key] = value
        self._watching.sink.part(Part("loss", name, base, settings, user_source()))
        return name


def describe(given: list[Array], reduction: str) -> dict[str, Value]:
    """What is known of prediction and target, as the adapter contract names it."""
    values: dict[str, Value] = {"reduction": reduction}
    prediction = given[0]
    values["prediction_shape"] = shape_text(prediction.shape)
    if prediction.size:
        values["prediction_min"] = float(prediction.min())
        values["prediction_max"] = float(prediction.max())
        if prediction.ndim > 1:
            rows = prediction.sum(axis=1, dtype=np.float64)
            values["prediction_row_sum_min"] = float(rows.min())
            values["prediction_row_sum_max"] = float(rows.max())
            values["classes"] = int(prediction.shape[1])
    if len(given) > 1:
        values |= describe_target(given[1])
    return values


def describe_target(target: Array) -> dict[str, Value]:
    values: dict[str, Value] = {"target_shape": shape_text(target.shape)}
    if not target.size:
        return values
    values["target_min"] = float(target.min())
    values["target_max"] = float(target.max())
    if target.dtype.kind in "iub":
        distinct, counts = np.unique(target, return_counts=True)
        share = counts / counts.sum()
        values["target_distinct"] = int(distinct.size)
        values["target_entropy"] = float(-(share * np.log(share)).sum())
    else:
        values["target_variance"] = float(target.var(dtype=np.float64))
    return values


def shape_text(shape: Any) -> str:
    """
    >>> shape_text((64, 1))
    '64x1'
    """
    return "x".join(str(length) for length in shape)
