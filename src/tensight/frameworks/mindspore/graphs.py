"""Graph mode and jit: what can be seen from outside of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor, nn

from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.networks import OPTIMIZERS, Known, Networks, is_wrapper
from tensight.frameworks.mindspore.updates import Optimizer, Updates
from tensight.frameworks.mindspore.values import Unjudged, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.patches import Patches

Call = Callable[..., Any]

_REASON = "it is compiled and runs outside Python"
_REMEDY = "run in PyNative mode (mindspore.set_context(mode=mindspore.PYNATIVE_MODE), no jit) to see inside"


class Graphs:
    """Compiled code as a black box: loss, parameters, updates and steps."""

    def __init__(self, watching: Watching, networks: Networks, updates: Updates, losses: Losses) -> None:
        self._watching = watching
        self._networks = networks
        self._updates = updates
        self._losses = losses

    def patch_compile(self, patches: Patches) -> Callable[[Call], Call]:
        """A compiler's entry, which must find MindSpore as it was."""

        def make(original: Call) -> Call:
            def compile(*args: Any, **kwargs: Any) -> Any:
                with patches.lifted():
                    return original(*args, **kwargs)

            return compile

        return make

    # a cell in graph mode

    def cell(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        """A cell that graph mode runs whole."""
        watching = self._watching
        if isinstance(cell, nn.LossBase):
            result = original(cell, *args, **kwargs)
            watching.probe("loss cell", self._losses.called, cell, args, result)
            return result
        optimizers = watching.probe("graph", self._optimizers_in, cell) or []
        network = watching.probe("graph", self._began, cell, bool(optimizers))
        for optimizer in optimizers:
            watching.probe("graph", self._ready, optimizer)
        result = original(cell, *args, **kwargs)
        if network is not None:
            watching.probe("graph", self._ended, network, optimizers, result)
        return result

    def _optimizers_in(self, cell: nn.Cell) -> list[Optimizer]:
        self._updates.declare_new()
        return [self._updates.find(child) for child in cell._cells.values() if isinstance(child, OPTIMIZERS)]

    def _began(self, cell: nn.Cell, training: bool) -> Known:
        watching = self._watching
        network = self._networks.find(model_in(cell))
        if not network.compiled:
            network.compiled = True
            self._networks.declare(network)
            watching.gap(f"cells inside {network.name}", _REASON, _REMEDY)
        self._updates.declare_new()
        watching.sink.forward(network.name, training)
        watching.sink.event("forward", network.name, {"training": bool(cell.training), "grad": training})
        if network.fresh and watching.some:
            network.fresh = False
            self._updates.observe_all(network)
        return network

    def _ready(self, optimizer: Optimizer) -> None:
        self._updates.read_rates(optimizer)
        if self._watching.some:
            self._updates.keep_before(optimizer)

    def _ended(self, network: Known, optimizers: list[Optimizer], result: Any) -> None:
        watching = self._watching
        watching.sink.forwarded(network.name)
        if not optimizers:
            return
        self._losses.ended(result)
        self._losses.tell()
        self._updates.backward_ended()
        watching.sink.backward()
        watching.gap(f"gradients inside {network.name}", _REASON, _REMEDY)
        for optimizer in optimizers:
            self._updates.weights_after(optimizer)
            self._updates.stepped(optimizer)

    # a function under jit

    def patch_jit(self, original: Call, stack: list[Any], inside: Callable[[], int]) -> Call:
        """The call of a function that jit has compiled."""

        def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
            watching = self._watching
            if watching.busy or inside():
                return original(executor, *args, **kwargs)
            if stack:
                watching.probe("jit", self._inside_cell, stack[-1].cell)
                return original(executor, *args, **kwargs)
            before = watching.probe("jit", self._before)
            result = original(executor, *args, **kwargs)
            if before is not None:
                watching.probe("jit", self._after, executor, before, result)
            return result

        return __call__

    def _inside_cell(self, known: Any) -> None:
        self._watching.gap(f"cells inside {known.path or known.network.name}", _REASON, _REMEDY)

    def _before(self) -> list[tuple[Optimizer, dict[int, bytes]]]:
        self._updates.declare_new()
        found = []
        for optimizer in self._updates.all:
            if optimizer.ref() is not None:
                self._ready(optimizer)
                found.append((optimizer, marks(optimizer)))
        return found

    def _after(self, executor: Any, before: list[tuple[Optimizer, dict[int, bytes]]], result: Any) -> None:
        watching = self._watching
        name = getattr(executor.fn, "__name__", "a function")
        gradient = is_gradient(executor.fn)
        stepped = [optimizer for optimizer, mark in before if marks(optimizer) != mark]
        if not gradient and not stepped:
            return
        watching.gap(f"cells inside {'the gradient function' if gradient else name}", _REASON, _REMEDY)
        self._losses.ended(result[0] if gradient and isinstance(result, (tuple, list)) and result else result)
        self._losses.tell()
        self._updates.backward_ended()
        watching.sink.backward()
        for optimizer in stepped:
            watching.gap(f"gradients inside {name}", _REASON, _REMEDY)
            self._updates.weights_after(optimizer)
            self._updates.stepped(optimizer)


def model_in(cell: nn.Cell) -> nn.Cell:
    """The model that MindSpore's own training cells wrap.

    TrainOneStepCell holds a WithLossCell, which holds the model and its loss.
    """
    for _ in range(8):
        if not is_wrapper(cell):
            return cell
        inner = [
            child
            for child in cell._cells.values()
            if not isinstance(child, (*OPTIMIZERS, nn.LossBase, nn.Identity)) and own_parameters(child)
        ]
        if len(inner) != 1:
            return cell
        cell = inner[0]
    return cell


def own_parameters(cell: nn.Cell) -> bool:
    return next(iter(cell.get_parameters()), None) is not None


def is_gradient(function: Any) -> bool:
    """Whether jit has compiled a gradient function of MindSpore itself: `value_and_grad` in graph mode."""
    return getattr(function, "__qualname__", "").startswith(("_Grad.", "GradOperation."))


def marks(optimizer: Optimizer) -> dict[int, bytes]:
    """What changes when an optimizer steps: the first values of each of its weights, and its own counter."""
    found: dict[int, bytes] = {}
    cell = optimizer.ref()
    counter = getattr(cell, "global_step", None)
    parameters: list[Tensor] = [*optimizer.parameters(), *([counter] if isinstance(counter, Tensor) else [])]
    for index, parameter in enumerate(parameters):
        try:
            found[index] = view(parameter).reshape(-1)[:64].tobytes()
        except Unjudged:
            continue
    return found
