"""Gradients: where MindSpore's PyNative executor ends a forward and runs a backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensight.frameworks.mindspore.losses import FIRST, Losses
from tensight.frameworks.mindspore.shadow import Shadow
from tensight.frameworks.mindspore.updates import Updates
from tensight.frameworks.mindspore.watching import Watching

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

Call = Callable[..., Any]


class Backward:
    """`value_and_grad`, `grad`, `GradOperation` and `TrainOneStepCell` all pass here in PyNative mode."""

    def __init__(
        self,
        watching: Watching,
        losses: Losses,
        updates: Updates,
        cells: Cells,
        shadow: Shadow,
        look_into_parts: Call,
    ) -> None:
        self._watching = watching
        self._losses = losses
        self._updates = updates
        self._cells = cells
        self._shadow = shadow
        self._look_into_parts = look_into_parts  # of the step that jit has compiled

    def patch_forward(self, original: Call) -> Call:
        """What a gradient is taken of, as it runs: a model and its loss."""

        def forward(function: Any, *args: Any, **kwargs: Any) -> Any:
            first = self._watching.sink.step < FIRST  # a loss by hand is told from its operators
            if self._watching.busy or self._cells.inside or not self._cells.listen(functions=first):
                return original(function, *args, **kwargs)
            try:
                return original(function, *args, **kwargs)
            finally:
                self._watching.probe("operators", self._cells.listening.leave)

        return forward

    def patch_end_graph(self, original: Call) -> Call:
        """The executor's end of a forward pass, whose output is the loss."""

        def end_graph(executor: Any, obj: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(executor, obj, output, *args, **kwargs)
            if not self._watching.busy:
                self._watching.probe("loss", self._losses.ended, output)
            return result

        return end_graph

    def patch_grad(self, original: Call) -> Call:
        """The executor's backward pass. Gradients of inputs alone train nothing and are no micro-step."""

        def grad(
            executor: Any, obj: Any, operation: Any, weights: Any, position: Any = None, aux: Any = None, *args: Any
        ) -> Any:
            trains = bool(weights) and not self._watching.busy
            if trains:
                self._watching.probe("shadow", self._shadow.gradient, obj, operation, weights, args, aux)
                self._watching.probe("loss", self._losses.tell)
            outer, self._watching.backward = self._watching.backward, True
            try:
                result = original(executor, obj, operation, weights, position, aux, *args)
            finally:
                self._watching.backward = outer
            if trains:
                self._shadow.came(weights, result)
                if self._updates.unscaling is not None:
                    self._watching.probe("loss scale", self._updates.unscaling.came, weights, result)
                self._watching.probe("look inside", self._look_into_parts)
                self._watching.probe("backward", self._updates.backward_ended, self._losses.network)
            return result

        return grad
