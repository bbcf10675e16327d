"""Level op: every operator of the forward pass, with its line, and the gradient of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindspore import Parameter, Tensor

from tensight.frameworks.mindspore.operators import Call
from tensight.frameworks.mindspore.values import dtype_name
from tensight.frameworks.mindspore.watching import Slot, Watching
from tensight.records import TensorInfo

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

_Key = tuple[str, str, str, str, int, int]


class OperatorLevel:
    """Observes operators (see `operators.Observer`) while the sink's level is 'op'."""

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self._slots: dict[_Key, Slot] = {}
        self._gradients: dict[_Key, Slot] = {}
        self._counts: dict[tuple[str, str, str, str], int] = {}
        self._turn = -1
        self._waiting: dict[int, Slot] = {}  # address of a result → the slot of its gradient, until it is used

    @property
    def wanted(self) -> bool:
        return self._watching.sink.level == "op" and self._watching.all

    def forget_slots(self) -> None:
        """In a copy, for another sink: what was declared is not known to it."""
        self._slots.clear()
        self._gradients.clear()
        self._waiting.clear()

    def seen(self, call: Call) -> None:
        if self._watching.turn != self._turn:
            self._turn = self._watching.turn
            self._counts.clear()
            self._waiting.clear()
        place = (call.network, call.module, call.primitive, self._cells.phase)
        number = self._counts.get(place, 0)
        self._counts[place] = number + 1
        for index, tensor in enumerate(call.outputs):
            if is_float(tensor) and tensor.size:
                self._look(call, (*place, number, index), tensor)

    def given(self, tensors: list[Tensor]) -> None:
        """An operator is about to run: gradients of what earlier ones have given it are looked at, once."""
        for tensor in tensors:
            after = self._waiting.pop(tensor.data_ptr(), None)
            if after is not None and self._cells.follows(tensor):
                self._follow(after, tensor)

    def _follow(self, slot: Slot, tensor: Tensor) -> None:
        watching = self._watching

        def came(value: Any) -> None:
            watching.probe("operator gradient", watching.look, slot, value, "backward")

        tensor.register_hook(came)

    def _look(self, call: Call, key: _Key, tensor: Tensor) -> None:
        watching = self._watching
        phase = self._cells.phase
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._declare(call, key, tensor, None)
        watching.look(slot, tensor, phase)
        if not self._cells.records:
            return
        after = self._gradients.get(key)
        if after is None:
            after = self._gradients[key] = self._declare(call, key, tensor, slot.info)
        self._waiting[tensor.data_ptr()] = after

    def _declare(self, call: Call, key: _Key, tensor: Tensor, forward: TensorInfo | None) -> Slot:
        info = TensorInfo(
            id=self._watching.sink.new_id(),
            kind="operator" if forward is None else "operator_gradient",
            node=call.module,
            slot=f"output.{key[5]}",
            network=call.network or self._cells.losses.network,
            call=key[4],
            shape=tuple(tensor.shape),
            dtype=dtype_name(tensor),
            type=call.primitive,
            op=f"ops.{call.name}",
            phase=self._cells.phase if forward is None else "backward",
            source=call.source,
            forward=None if forward is None else forward.id,
        )
        self._watching.sink.tensor(info)
        return Slot(info)


def is_float(tensor: Tensor) -> bool:
    return dtype_name(tensor).startswith(("float", "bfloat")) and not isinstance(tensor, Parameter)
