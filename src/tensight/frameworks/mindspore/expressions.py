"""Losses that no loss function makes: `((net(x) - y) ** 2).mean()`, told from operators that run after the model.

They may run inside a cell too: one of the user's own that joins model and loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mindspore import Tensor

from tensight.frameworks.mindspore.losses import FIRST, shape_text
from tensight.frameworks.mindspore.operators import arguments, public_name
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source
from tensight.records import Source
from tensight.records.event import Value

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

_MOST = 200  # operators and differences that are remembered


class Difference(NamedTuple):
    """One tensor less another: a loss by hand compares prediction and target like that."""

    left: str
    right: str
    result: str
    source: Source | None


class Expressions:
    """Hears of the operators between the model's end and the loss, in the first steps."""

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self._operators: list[str] = []
        self._differences: list[Difference] = []

    def returned(self, result: Any) -> None:
        """The outermost cell has returned: what comes next may be its loss, unless it has computed that itself."""
        if not (isinstance(result, Tensor) and result.size == 1):
            self.begin()

    def begin(self) -> None:
        """A model, or a part of the outermost cell, has returned: what comes next may be its loss."""
        self._operators.clear()
        self._differences.clear()

    def ran(self, name: str, args: Any, result: Any) -> None:
        """An operator has run."""
        watching, cells = self._watching, self._cells
        if len(cells.stack) > 1 or cells.inside or watching.busy or watching.backward or watching.sink.step >= FIRST:
            return
        watching.probe("expression", self._heard, public_name(name), args, result)

    def _heard(self, name: str, args: Any, result: Any) -> None:
        if len(self._operators) >= _MOST:
            return
        self._operators.append(name)
        given = [value for value in arguments(args) if isinstance(value, Tensor)]
        if name == "sub" and len(given) == 2 and isinstance(result, Tensor) and given[0].ndim and given[1].ndim:
            left, right, made = (shape_text(tensor.shape) for tensor in (*given, result))
            self._differences.append(Difference(left, right, made, user_source()))

    def tell(self, value: float) -> None:
        """A backward pass begins, and its loss is of no loss function."""
        operators, differences = list(reversed(self._operators)), list(self._differences)
        self.begin()
        if not operators:
            return
        values: dict[str, Value] = {"function": "expression", "operators": ", ".join(operators), "result_shape": ""}
        values["value"] = value
        reduction = next((name for name in operators if name in ("mean", "sum")), None)
        if reduction is not None:
            values["reduction"] = reduction
        source = user_source()
        if differences:  # one that broadcasts is the news; otherwise the last one compares prediction and target
            grown = [one for one in differences if one.result not in (one.left, one.right)]
            one = (grown or differences)[-1]
            values |= {"prediction_shape": one.left, "target_shape": one.right, "difference_shape": one.result}
            source = one.source or source
        self._watching.sink.event("loss", "expression", values, source)
