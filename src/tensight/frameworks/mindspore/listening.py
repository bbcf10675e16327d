"""One operator dispatch for all who want to see operators: the innermost mode alone is asked, so there must be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindspore import Tensor

from tensight.frameworks.mindspore.expressions import Expressions
from tensight.frameworks.mindspore.functions import Functions
from tensight.frameworks.mindspore.networks import Networks
from tensight.frameworks.mindspore.operators import Call, dispatching
from tensight.frameworks.mindspore.operators_level import OperatorLevel
from tensight.frameworks.mindspore.structure import Structure
from tensight.frameworks.mindspore.watching import Watching

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells


class Listening:
    """Put on while a model, or what a gradient is taken of, runs."""

    def __init__(self, watching: Watching, networks: Networks, cells: Cells) -> None:
        self._watching = watching
        self.level = OperatorLevel(watching, cells)
        self.structure = Structure(watching, networks, cells)
        self._deep = False
        self._depth = 0
        self.expressions = Expressions(watching, cells)
        self._functions = Functions(watching, cells)
        self._mode: Any = dispatching(self, cells.where, watching.probe, light=self._ran, deep=lambda: self._deep)

    def _ran(self, name: str, args: Any, result: Any) -> None:
        self._functions.ran(name, args, result)
        self.expressions.ran(name, args, result)

    def enter(self, *, functions: bool) -> bool:
        """Begin to listen, when anybody wants to; `leave` must follow where this answers True."""
        level, structure = self.level.wanted, self.structure.wanted
        if not (functions or level or structure):
            return False
        if self._mode is None:
            self._watching.gap(
                "activation functions", "this MindSpore has no operator dispatch", "use a newer MindSpore, or cells"
            )
            return False
        self._depth += 1
        if self._depth == 1:
            self._deep = level or structure
            self._mode.__enter__()
        return True

    def leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._functions.attention.forget()
            self._mode.__exit__(None, None, None)

    def given(self, tensors: list[Tensor]) -> None:
        if self.level.wanted and not self._watching.busy and not self._watching.backward:
            self._watching.probe("operator", self.level.given, tensors)

    def seen(self, call: Call) -> None:
        if self._watching.busy or self._watching.backward:
            return
        if self.level.wanted:
            self._watching.probe("operator", self.level.seen, call)
        if self.structure.wanted:
            self._watching.probe("structure", self.structure.seen, call)
