"""Graph mode and jit: what can be seen from outside of compiled code."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from mindspore import Tensor, nn

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.inside import Inside
from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.networks import OPTIMIZERS, Known, Networks, has_parameters, is_wrapper
from tensight.frameworks.mindspore.shadow import Shadow
from tensight.frameworks.mindspore.structure import Structure
from tensight.frameworks.mindspore.swaps import Swaps
from tensight.frameworks.mindspore.updates import Optimizer, Updates
from tensight.frameworks.mindspore.values import Unjudged, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.patches import Patches

Call = Callable[..., Any]

_REASON = "it is compiled and runs outside Python"
_LOOKS = "; a copy of the process looks into the first steps and some later ones"
_REMEDY = "run in PyNative mode, without jit, to see every step"


class Graphs:
    """Compiled code as a black box: loss, parameters, updates and steps."""

    def __init__(self, watching: Watching, networks: Networks, updates: Updates, losses: Losses) -> None:
        self.shadow: Shadow | None = None
        self.inside: Inside | None = None
        self.structure: Structure | None = None
        self._watching = watching
        self._networks = networks
        self._updates = updates
        self._losses = losses
        self._models: IdentityMap[Any, list[Known]] = IdentityMap()
        self._training: IdentityMap[Any, bool] = IdentityMap()  # functions under jit that have trained before
        self._announced = False  # the forward pass of the function that runs now
        self._drivers: IdentityMap[nn.Cell, list[weakref.ref[nn.Cell]]] = IdentityMap()  # cells and their optimizers
        self._told: set[str] = set()  # places that are known not to be seen in full
        self._parts = False  # jit has run a part of the model that Python runs now

    def patch_compile(self, patches: Patches, swaps: Swaps) -> Callable[[Call], Call]:
        """A compiler's entry, which must find MindSpore as it was."""

        def make(original: Call) -> Call:
            def compile(*args: Any, **kwargs: Any) -> Any:
                with patches.lifted(), swaps.lifted():
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
        if optimizers:
            watching.probe("shadow", self._keep, cell, args, kwargs)
        pair = fed_to_loss(cell, args) if watching.all and optimizers else None
        if network is not None and pair is not None:
            watching.probe("input", self._fed, network, args[0])
        result = original(cell, *args, **kwargs)
        if network is not None:
            watching.probe("graph", self._ended, network, optimizers, result, pair)
        return result

    def _fed(self, network: Known, tensor: Tensor) -> None:
        watching = self._watching
        slot = network.inputs.get("input.0")
        if slot is None:
            slot = network.inputs["input.0"] = watching.declare("input", "", "input.0", tensor, network=network.name)
        watching.look(slot, tensor, "forward")

    def _optimizers_in(self, cell: nn.Cell) -> list[Optimizer]:
        self._updates.declare_new()
        refs = self._drivers.get(cell)
        if refs is None:
            refs = self._drivers[cell] = [weakref.ref(one) for one in optimizers_in(cell)]
        return [self._updates.find(one) for ref in refs if (one := ref()) is not None]

    def _began(self, cell: nn.Cell, training: bool) -> Known:
        watching = self._watching
        network = self._networks.find(model_in(cell))
        if not network.compiled:
            network.compiled = True
            self._networks.declare(network)
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

    def _keep(self, function: Any, args: Any, kwargs: Any) -> None:
        """What a step is given, should it have to be run again."""
        if self.shadow is not None:
            self.shadow.call(function, args, kwargs)

    def _ended(
        self, network: Known, optimizers: list[Optimizer], result: Any, pair: tuple[nn.Cell, Tensor] | None
    ) -> None:
        watching = self._watching
        watching.sink.forwarded(network.name)
        self._gap(network.name, "cells and gradients" if optimizers else "cells")
        if not optimizers:
            return
        self._trained(network.name, result)
        looked = watching.probe("look inside", self._look, True)
        if pair is not None and not looked:
            watching.probe("labels", self._losses.labels, *pair)
        for optimizer in optimizers:
            self._updates.weights_after(optimizer)
            self._updates.stepped(optimizer)

    def _look(self, gradients: bool) -> bool:
        """Into the step that has run; of one that nobody can look into an outline alone is told."""
        looked = self.inside is not None and self.inside.look(gradients=gradients)
        if self.structure is not None:
            self.structure.outline()
        return looked

    def _trained(self, network: str, result: Any) -> None:
        self._losses.network = network
        self._losses.ended(result)
        self._losses.tell()
        self._updates.backward_ended(network)

    # a function under jit

    def patch_jit(self, original: Call, stack: list[Any], inside: Callable[[], int]) -> Call:
        """The call of a function that jit has compiled."""

        def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
            watching = self._watching
            if watching.busy or inside() or of_mindspore(executor.fn):
                return original(executor, *args, **kwargs)
            if stack:
                watching.probe("jit", self._inside_cell, stack[-1].cell)
                return original(executor, *args, **kwargs)
            before = watching.probe("jit", self._before, executor, args)
            if before:
                watching.probe("shadow", self._keep, executor.fn, args, kwargs)
            result = original(executor, *args, **kwargs)
            if before is not None:
                watching.probe("jit", self._after, executor, before, result)
            return result

        return __call__

    def _inside_cell(self, known: Any) -> None:
        self._parts = True
        self._gap(known.path or known.network.name)

    def _gap(self, place: str, what: str = "cells") -> None:
        """Said once for each place: what is not seen of it, or not in every step."""
        if place in self._told:
            return
        self._told.add(place)
        looks = self.shadow is not None and self.shadow.copier is not None
        said = f"every step inside {place}" if looks else f"{what} inside {place}"
        self._watching.gap(said, _REASON + (_LOOKS if looks else ""), _REMEDY)

    def look_into_parts(self) -> None:
        """A gradient was taken in Python: of what jit has run in it nothing was seen."""
        parts, self._parts = self._parts, False
        if parts and self.inside is not None:
            self.inside.look(gradients=False, part=True)

    def _before(self, executor: Any, args: Any) -> list[tuple[Optimizer, dict[int, bytes]]]:
        watching = self._watching
        for network in self._networks_of(executor.fn, args):
            if network.fresh and watching.some:
                network.fresh = False
                self._updates.observe_all(network)
        self._updates.declare_new()
        found = []
        for optimizer in self._updates.all:
            if optimizer.ref() is not None:
                self._ready(optimizer)
                found.append((optimizer, marks(optimizer)))
        self._announced = self._trains(executor.fn)
        if (
            self._announced
        ):  # now, not afterwards: else its time would seem to have passed before the network was called
            self._announce(executor.fn)
        return found

    def _trains(self, function: Any) -> bool:
        """Whether a compiled function is known to train."""
        try:
            return is_gradient(function) or bool(self._training.get(function))
        except TypeError:  # not to be referred to weakly
            return False

    def _announce(self, function: Any) -> None:
        for network in self._networks_of(function):
            self._watching.sink.forward(network.name, True)
            self._watching.sink.event("forward", network.name, {"training": True, "grad": True})

    def _after(self, executor: Any, before: list[tuple[Optimizer, dict[int, bytes]]], result: Any) -> None:
        watching = self._watching
        name = getattr(executor.fn, "__name__", "a function")
        gradient = is_gradient(executor.fn)
        stepped = [optimizer for optimizer, mark in before if marks(optimizer) != mark]
        if not gradient and not stepped:
            return
        networks = self._networks_of(executor.fn)
        if not self._announced:
            self._announce(executor.fn)
            with contextlib.suppress(TypeError):  # not to be referred to weakly
                self._training[executor.fn] = True
        for network in networks:
            watching.sink.forwarded(network.name)
        self._gap("the gradient function" if gradient else name, "cells" if gradient else "cells and gradients")
        first = result[0] if gradient and isinstance(result, (tuple, list)) and result else result
        self._trained(networks[0].name if networks else "", first)
        watching.probe("look inside", self._look, not gradient)
        for optimizer in stepped:
            self._updates.weights_after(optimizer)
            self._updates.stepped(optimizer)

    def _networks_of(self, function: Any, args: Any = ()) -> list[Known]:
        """The models that a compiled function uses; looked for once."""
        try:
            known = self._models.get(function)
        except TypeError:  # not to be referred to weakly
            return []
        if known is None:
            known = []
            for cell in [*cells_used_by(function), *cells_given(args)]:
                model = model_in(cell)
                if self._networks.is_model(model):
                    network = self._networks.find(model)
                    if not network.compiled:
                        network.compiled = True
                        self._networks.declare(network)
                    if network not in known:
                        known.append(network)
            self._models[function] = known
        return known


def cells_used_by(function: Any, depth: int = 0) -> Iterator[nn.Cell]:
    """Cells that a function refers to, itself or through functions of the user it calls."""
    code = getattr(function, "__code__", None)
    if code is None or depth > 4:
        return
    values = [variable.cell_contents for variable in function.__closure__ or () if variable_is_set(variable)]
    values += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    values += [getattr(function, "__self__", None)]
    for value in values:
        if isinstance(value, nn.Cell):
            yield value
        elif inspect.isfunction(value):
            yield from cells_used_by(inspect.unwrap(value), depth + 1)


def cells_given(args: Any) -> Iterator[nn.Cell]:
    """Cells among a call's arguments, and those that the object whose method is called holds."""
    for arg in args:
        if isinstance(arg, nn.Cell):
            yield arg
    if args and not isinstance(args[0], (Tensor, nn.Cell)):
        yield from (value for value in getattr(args[0], "__dict__", {}).values() if isinstance(value, nn.Cell))


def variable_is_set(variable: Any) -> bool:
    try:
        return variable.cell_contents is not None
    except ValueError:
        return False


def optimizers_in(cell: nn.Cell) -> list[nn.Cell]:
    """Optimizers in a cell, however deep: a cell that feeds data may wrap one that trains."""
    found: list[nn.Cell] = []
    for _, child in cell.cells_and_names():
        if isinstance(child, OPTIMIZERS) and all(child is not other for other in found):
            found.append(child)
    return found


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
            if not isinstance(child, (*OPTIMIZERS, nn.LossBase, nn.Identity)) and has_parameters(child)
        ]
        if len(inner) != 1:
            return cell
        cell = inner[0]
    return cell


def fed_to_loss(cell: nn.Cell, args: Any) -> tuple[nn.Cell, Tensor] | None:
    """Loss and target of a training step, where MindSpore's own cells join model and loss and so fix the order."""
    joined = cell._cells.get("network")
    if type(joined) is not nn.WithLossCell or len(args) != 2 or not all(isinstance(arg, Tensor) for arg in args):
        return None
    loss = joined._cells.get("_loss_fn")
    return (loss, args[1]) if isinstance(loss, nn.LossBase) else None


def of_mindspore(function: Any) -> bool:
    """Whether MindSpore itself has written a function so: an operator, `amp.all_finite`. It is no step of the user."""
    return str(getattr(function, "__module__", "")).startswith("mindspore.") and not is_gradient(function)


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
