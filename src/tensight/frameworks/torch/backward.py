"""Backward passes: the loss as a number, gradients that nobody will step with, parameters that nobody registered."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.bare_tensors import BareTensors
from tensight.frameworks.torch.graph import leaves
from tensight.frameworks.torch.networks import Held, Networks
from tensight.frameworks.torch.shards import local, whole
from tensight.frameworks.torch.updates import Updates
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.records.event import Value

_graph_task = torch._C._current_graph_task_id
_is_compiling = torch.compiler.is_compiling
_REAL = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
_MOST_MARKS = 4


class Resting:
    """The weights of a network after a backward pass, to notice when they change; nothing of them is kept alive."""

    def __init__(self, found: list[tuple[Held, torch.Tensor]]) -> None:
        self._held = [held for held, _ in found]
        # an update moves them all: a few are enough to see it
        self._marks = [(held, tensor._version, _sample(tensor)) for held, tensor in found[:_MOST_MARKS]]

    def moved(self) -> bool:
        for held, version, sample in self._marks:
            tensor = held.ref()
            if tensor is not None and (tensor._version != version or _sample(tensor) != sample):
                return True
        return False

    def found(self) -> list[tuple[Held, torch.Tensor]]:
        return [(held, tensor) for held in self._held if (tensor := held.ref()) is not None]


class Backward:
    """Watches `torch.autograd.backward` (which `Tensor.backward` calls) and `torch.autograd.grad`."""

    def __init__(self, watching: Watching, networks: Networks, updates: Updates, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self.updates = updates
        self.scale_of: Any = None  # tensor → what a scaler multiplied it by
        self.on_root: list = []  # called with the root of each backward pass before it runs
        self.by_hand: list = []  # called behind an update that no optimizer has made
        self.holds_parameters: Any = lambda model: False  # whether an optimizer holds parameters of a model
        self._table: dict[object, Watched] = {}
        self._walked: set[str] = set()
        self._resting: dict[str, Resting] = {}  # by network, those without an optimizer
        self._beside: list[tuple[str, torch.Tensor, torch.Tensor | None, int, bool]] = []
        # the smallest parameter, its gradient as the last pass left it, and values of that
        self._left: tuple[weakref.ref, torch.Tensor, tuple] | None = None
        self.has_optimizer: Callable[[], bool] = lambda: False
        updated = watching.probe("update by hand", self.weights_may_have_changed)
        self._bare = BareTensors(lambda: not self.networks.models and not self.has_optimizer(), updated, patches)
        patches.wrap(torch.autograd, "backward", self._around_backward)
        patches.wrap(torch.autograd, "grad", self._around_grad)

    def _around_backward(self, original: Any) -> Any:
        watching = self.watching
        begin = watching.probe("backward", self._begin)
        end = watching.probe("backward end", self._end)

        hear = watching.probe("loss", self._hear)

        def backward(tensors, *args, **kwargs):
            if _is_compiling() or not watching.attached or _graph_task() != -1:
                return original(tensors, *args, **kwargs)
            if watching.asleep:
                self._left = None
                # a plain loss is heard here: a call more is a microsecond of the training's
                if type(tensors) is torch.Tensor and not tensors.dim() and tensors.is_cpu and tensors.dtype in _REAL:
                    watching.sink.loss(tensors.item())
                else:
                    hear(tensors)
                return original(tensors, *args, **kwargs)
            values = begin(tensors)
            try:
                result = original(tensors, *args, **kwargs)
            except BaseException:
                watching.scale = 1.0
                raise
            if values is not None:
                end(values)
            return result

        return backward

    def _hear(self, tensors: Any) -> None:
        """Asleep: only the loss as a number."""
        root = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        value = _number(root) if isinstance(root, torch.Tensor) else None
        if value is not None:
            self.watching.sink.loss(value)

    def _begin(self, tensors: Any) -> dict[str, Value] | None:
        watching = self.watching
        root = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        if not isinstance(root, torch.Tensor):
            return None
        self.weights_may_have_changed()
        watching.scale = self.scale_of(root) if self.scale_of is not None else 1.0
        model = self.networks.models.get(watching.network)
        module = model.ref() if model is not None else None
        values: dict[str, Value] = {}
        # where nobody was seen to clear gradients, and while gradients are looked at anyway
        cleared = self._cleared(model) if watching.unzeroed or watching.gradients else None
        if cleared is not None:
            values["cleared"] = cleared
            if not cleared and self._kept_on_purpose(model):
                values["kept"] = True
            self._beside = self._others(watching.network)
        if cleared and watching.unzeroed:
            # by hand: `p.grad = None`, `p.grad.zero_()`
            watching.unzeroed = False
            watching.sink.event("zero_grad", watching.network, {"noticed": True})
        if module is not None:
            values["training"] = module.training
        if watching.scale != 1.0:
            values["scale"] = watching.scale
        self._find_loose(root)
        self._bare.look(root)
        for tell in self.on_root:
            tell(root, watching.scale)
        value = _number(root)
        if value is not None:
            self._loss(value / watching.scale)
        return values

    def _end(self, values: dict[str, Value]) -> None:
        watching = self.watching
        sink = watching.sink
        scale, watching.scale = watching.scale, 1.0
        watching.backwards += 1
        self._reached(values)
        self.gradients_changed()
        sink.event("backward", watching.network, values, user_source())
        self._remember_weights(scale)
        watching.stamp += 1
        sink.backward()

    def _loss(self, value: float) -> None:
        watching = self.watching
        known = self._table.get("loss")
        if known is None or known.version != watching.needs_version:
            known = watching.watched(
                self._table, "loss", torch.empty(()), "loss", "", "loss", watching.network, phase="forward"
            )
        watching.sink.observe(known.id, statistics.scalar(value, known.needs), "forward", None)
        watching.sink.loss(value)

    def _cleared(self, model: Any) -> bool | None:
        """Whether gradients were empty or zero before this pass: seen from the smallest parameter that has one."""
        if model is None or model.is_elsewhere:
            return None
        smallest = _smallest(model)
        if smallest is None or smallest.grad is None:
            return True
        if smallest.grad.is_sparse or smallest.device.type != "cpu":
            return None
        return not bool(local(smallest.grad).count_nonzero())

    def gradients_changed(self, *_: object) -> None:
        """Gradients are now as a backward pass, or clipping after it, has left them."""
        self._left = None
        if self.has_optimizer():
            return
        model = self.networks.models.get(self.watching.network)
        smallest = _smallest(model) if model is not None and not model.is_elsewhere else None
        if smallest is not None and smallest.grad is not None:
            self._left = (weakref.ref(smallest), smallest.grad, _sample(smallest.grad))

    def _kept_on_purpose(self, model: Any) -> bool:
        """Whether the program has changed gradients since: a momentum by hand keeps a part of them in .grad.

        What was only forgotten lies there as the last pass left it.
        """
        left = self._left
        smallest = _smallest(model) if left is not None else None
        if left is None or smallest is None:
            return False
        gradient = smallest.grad
        return left[0]() is smallest and (gradient is not left[1] or _sample(gradient) != left[2])

    def _others(self, network: str) -> list[tuple[str, torch.Tensor, torch.Tensor | None, int, bool]]:
        """Of other networks with an optimizer: a parameter, its gradient before this pass, and whether that is empty.

        A loss belongs to the network that was called last; what its pass adds to others is seen from these.
        """
        found = []
        for model in self.networks.models.values():
            if model.name == network or model.is_elsewhere or not self.holds_parameters(model):
                continue
            tensor = _smallest(model)
            cleared = self._cleared(model)
            if tensor is not None and cleared is not None:
                grad = tensor.grad
                found.append((model.name, tensor, grad, -1 if grad is None else grad._version, cleared))
        return found

    def _reached(self, values: dict[str, Value]) -> None:
        """To which other networks this pass has added gradients: to those that were there, or to none."""
        beside, self._beside = self._beside, []
        reached = []
        for name, tensor, grad, version, cleared in beside:
            now = tensor.grad
            if now is not None and (id(now), now._version) != (id(grad), version):
                reached.append((name, cleared))
        for value, wanted in (("added_to", False), ("begun_in", True)):
            names = [name for name, cleared in reached if cleared is wanted]
            if names:
                values[value] = " ".join(names)

    # torch.autograd.grad

    def _around_grad(self, original: Any) -> Any:
        watching = self.watching
        happened = watching.probe("autograd.grad", self._grad)

        def grad(outputs, inputs, *args, **kwargs):
            result = original(outputs, inputs, *args, **kwargs)
            if not _is_compiling() and watching.active and _graph_task() == -1:
                happened(outputs, inputs, result)
            return result

        return grad

    def _grad(self, outputs: Any, inputs: Any, result: Any) -> None:
        """Gradients of known parameters make it a backward pass; others (penalties) are only an event."""
        watching = self.watching
        root = outputs if isinstance(outputs, torch.Tensor) else next(iter(outputs))
        given = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        found = []
        for tensor, gradient in zip(given, result):
            held = self.networks.parameters.get(tensor) if isinstance(tensor, torch.Tensor) else None
            if held is not None and isinstance(gradient, torch.Tensor):
                found.append((held, gradient))
        if not found:  # inside torch.func all tensors are stand-ins, whose values cannot be asked for
            watching.sink.event("grad", watching.network, {"inputs": len(given)}, user_source())
            return
        value = _number(root)
        self.weights_may_have_changed()
        if value is not None:
            self._loss(value)
        # An optimizer steps with what lies in .grad: what it is given there is looked at before its update.
        found = [(held, gradient) for held, gradient in found if not held.optimizer]
        if watching.gradients and found:
            norm = self.updates.look_at_given(found)
            if norm is not None:
                watching.sink.scalar("gradient_norm", norm)
        watching.backwards += 1
        watching.sink.event("backward", watching.network, {"function": "grad"}, user_source())
        self._remember_weights(1.0, gradients_seen=True)
        watching.stamp += 1
        watching.sink.backward()

    # loops without an optimizer

    def weights_may_have_changed(self, *_: object) -> None:
        """Called where a new round begins: weights that moved since the last backward pass end a step."""
        if not self._resting:
            return
        remembered = list(self._resting.values())
        if not any(one.moved() for one in remembered):
            return
        self._resting = {}
        watching = self.watching
        if watching.gradients:
            self.updates.look_at_weights([pair for one in remembered for pair in one.found()])
        for tell in self.by_hand:
            tell()
        watching.stamp += 1
        watching.sink.weights_changed()

    def _remember_weights(self, scale: float, gradients_seen: bool = False) -> None:
        """Of models that no optimizer trains: gradients now, and what is needed to see later that weights changed."""
        for model in self.networks.models.values():
            if self.holds_parameters(model):
                self._resting.pop(model.name, None)
                continue
            if model.is_elsewhere:
                continue
            found = [
                (held, tensor)
                for held in model.parameters
                if (tensor := held.ref()) is not None
                and tensor.requires_grad
                and (gradients_seen or tensor.grad is not None)
            ]
            self._remember(model.name, found, scale, gradients_seen)
        self._remember("", self._bare.with_gradients(), scale, gradients_seen)

    def _remember(
        self, network: str, found: list[tuple[Held, torch.Tensor]], scale: float, gradients_seen: bool
    ) -> None:
        if not found:
            return
        if self.watching.gradients:
            if not gradients_seen:
                norm = self.updates.look_at_gradients(found, scale)
                if norm is not None:
                    self.watching.sink.scalar("gradient_norm", norm)
            if network not in self._resting:
                self.updates.copy(found)
        if network not in self._resting:
            self._resting[network] = Resting(found)

    def _find_loose(self, root: torch.Tensor) -> None:
        """Once per network: trained tensors that the graph reaches and no module has registered."""
        name = self.watching.network
        if name in self._walked or name not in self.networks.models or root.grad_fn is None:
            return
        self._walked.add(name)
        self.networks.found_loose([tensor for tensor in leaves(root) if tensor not in self.networks.parameters])


def _smallest(model: Any) -> torch.Tensor | None:
    """The smallest trained parameter that has a gradient; any other where none has one."""
    smallest = None
    for held in model.parameters:
        tensor = held.ref()
        if tensor is None or not tensor.requires_grad:
            continue
        if smallest is None or (tensor.grad is not None, -tensor.numel()) > (
            smallest.grad is not None,
            -smallest.numel(),
        ):
            smallest = tensor
    return smallest


def _number(root: torch.Tensor) -> float | None:
    found = whole(root)
    if found is None or found.numel() != 1 or found.is_complex() or found.device.type == "meta":
        return None
    return float(found.detach().item())


def _sample(tensor: torch.Tensor) -> tuple:
    """A few elements, to notice changes that leave no trace in the version counter (`p.data -= …`)."""
    values = local(tensor.detach())
    if values.device.type != "cpu" or values.layout is not torch.strided or not values.numel():
        return ()
    flat = values.reshape(-1) if values.is_contiguous() else values
    if flat.dim() != 1:
        return ()
    return tuple(flat[:: max(1, flat.numel() // 8)][:8].tolist())
