"""Optimizers: found when they are created, told when they step."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Held, Model, Networks
from tensight.frameworks.torch.updates import Updates
from tensight.frameworks.torch.watching import Watching
from tensight.records import Part, Source
from tensight.records.event import Value

_SETTINGS = ("lr", "momentum", "weight_decay", "betas", "eps", "nesterov", "amsgrad", "alpha", "maximize", "dampening")


class Stepper:
    """An optimizer that is watched."""

    def __init__(self, name: str, optimizer: Optimizer, source: Source | None) -> None:
        self.name = name
        self.ref = weakref.ref(optimizer)
        self.type = type(optimizer).__name__
        self.source = source
        self.steps = 0
        self.first = False  # the first that was found: its learning rate is 'lr'
        self.size: tuple[int, ...] = ()
        self.loose: IdentityMap[torch.Tensor, Held] = IdentityMap()


class Optimizers:
    """Watches all optimizers."""

    def __init__(self, watching: Watching, networks: Networks, updates: Updates, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self.updates = updates
        self.known: IdentityMap[Optimizer, Stepper] = IdentityMap()
        self.before_step: list = []  # called before each update
        self.after_step: list = []  # called behind each update, also while asleep
        self._names: set[str] = set()
        self._stepping: list[Stepper] = []
        self._guarded_before = watching.probe("gradients", updates.before)
        self._guarded_after = watching.probe("weights", updates.after)
        networks.changed_hooks.append(self._network_changed)
        patches.wrap(Optimizer, "__init__", self._around_init)
        patches.wrap(Optimizer, "zero_grad", self._around_zero_grad)
        before, after = self._hooks()
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(before),
            torch_optimizer.register_optimizer_step_post_hook(after),
        ]

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()

    def add(self, optimizer: Optimizer, source: Source | None = None) -> Stepper:
        """The watched optimizer, found now if it was not before."""
        known = self.known.get(optimizer)
        if known is None:
            name, number = type(optimizer).__name__, 2
            while name in self._names:
                name, number = f"{type(optimizer).__name__}-{number}", number + 1
            known = Stepper(name, optimizer, source)
            known.first = not self._names
            self._names.add(name)
            self.known[optimizer] = known
            self._hold(known, optimizer)
            self._tell(known, optimizer)
        return known

    def name_of(self, optimizer: object) -> str:
        known = self.known.get(optimizer)
        return "" if known is None else known.name

    # patches

    def _around_init(self, original: Any) -> Any:
        watching = self.watching
        found = watching.probe("optimizer", lambda optimizer: self.add(optimizer, user_source()))

        def __init__(optimizer, *args, **kwargs):
            original(optimizer, *args, **kwargs)
            if watching.attached:
                found(optimizer)

        return __init__

    def _around_zero_grad(self, original: Any) -> Any:
        watching = self.watching

        def happened(optimizer: Optimizer, set_to_none: bool) -> None:
            known = self.add(optimizer)
            watching.unzeroed = False
            values: dict[str, Value] = {"set_to_none": bool(set_to_none)}
            if self._stepping:  # in a closure: the step under way has had the gradients of the passes before
                values["inside"] = True
            watching.sink.event("zero_grad", known.name, values, user_source())

        tell = watching.probe("zero_grad", happened)

        def zero_grad(optimizer, *args, **kwargs):
            result = original(optimizer, *args, **kwargs)
            if watching.active:
                tell(optimizer, args[0] if args else kwargs.get("set_to_none", True))
            return result

        return zero_grad

    # steps

    def _hooks(self) -> tuple[Any, Any]:
        """What torch calls around every update: asleep, a call more is a microsecond of the training's."""
        watching = self.watching
        awake = watching.probe("before update", self._before)
        updated = watching.probe("update", self._after)
        rested = watching.probe("update", self._rested)

        def before(optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
            if watching.active:
                awake(optimizer, args, kwargs)

        def after(optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
            if watching.asleep:
                rested(optimizer)
            elif watching.attached:
                updated(optimizer, args, kwargs)

        return before, after

    def _before(self, optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
        self._forget_interrupted()
        known = self.add(optimizer)
        outer = bool(self._stepping)
        self._stepping.append(known)
        if outer:
            return  # an optimizer inside another one: the outer one's step is the step
        groups = optimizer.param_groups
        if len(groups) != len(known.size) or len(groups[-1]["params"]) != known.size[-1]:
            self._hold(known, optimizer)
            self._tell(known, optimizer)
        if not known.steps:
            self.networks.adopt([tensor for group in optimizer.param_groups for tensor in group["params"]])
        for model in self._models(optimizer):
            model.thread = threading.get_ident()
        for tell in self.before_step:
            tell()
        closure = _closure(args, kwargs)
        if self.watching.gradients:
            self._look_before(known, optimizer, closure is not None, _scale_inside(optimizer))
        if closure is None:
            self.watching.sink.before_update(known.name)

    def _after(self, optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
        if len(self._stepping) < 2:
            for tell in self.after_step:
                tell()
        if not self._stepping:
            return
        known = self._stepping.pop()
        if self._stepping:
            return
        if self.watching.gradients:
            # a closure may have called a network for the first time
            self._look_after(known, self._tensors(known, optimizer) if _closure(args, kwargs) else None)
        self.finish(known, optimizer, skipped=False)

    def _rested(self, optimizer: Optimizer) -> None:
        for tell in self.after_step:
            tell()
        known = self.known.values.get(id(optimizer))
        self.watching.sink.updated((known or self.add(optimizer)).name)

    def skipped(self, optimizer: Optimizer) -> None:
        """A loss scaler left out an update because gradients were not finite."""
        known = self.add(optimizer)
        if self.watching.gradients:
            self._look_before(known, optimizer, False, 1.0)
            self._look_after(known)
        self.finish(known, optimizer, skipped=True)

    def _look_before(self, known: Stepper, optimizer: Optimizer, later: bool, scale: float) -> None:
        # under a guard of its own: what cannot be seen must not keep a step from being counted
        self._guarded_before(self._tensors(known, optimizer), later, scale)

    def _look_after(self, known: Stepper, found: list[tuple[Held, torch.Tensor]] | None = None) -> None:
        norm = self._guarded_after(found)
        if norm is not None:
            name = "gradient_norm" if known.first else f"gradient_norm/{known.name}"
            self.watching.sink.scalar(name, norm)

    def finish(self, known: Stepper, optimizer: Optimizer, *, skipped: bool) -> None:
        """Tell events and scalars of a step, then that it has happened."""
        sink = self.watching.sink
        known.steps += 1
        self.watching.unzeroed = True
        self.watching.stamp += 1
        rate = self._rates(known, optimizer)
        values: dict[str, Value] = {"lr": rate}
        if skipped:
            values["skipped"] = True
        sink.event("optimizer_step", known.name, values, user_source())
        if self.watching.gradients:
            for model in self._models(optimizer):
                self.networks.refresh(model)
        sink.updated(known.name)

    def _forget_interrupted(self) -> None:
        """Steps that ended by an error never came to `_after`: count the steps that are really running."""
        if self._stepping:
            running, frame = 0, sys._getframe(1)
            code = _step_code()
            while frame is not None:
                running += frame.f_code is code
                frame = frame.f_back  # type: ignore[assignment]
            del self._stepping[max(0, running - 1) :]

    # inside

    def _size(self, optimizer: Optimizer) -> tuple[int, ...]:
        return tuple(len(group["params"]) for group in optimizer.param_groups)

    def _hold(self, known: Stepper, optimizer: Optimizer) -> None:
        known.size = self._size(optimizer)
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                self.networks.optimizer_of[tensor] = known.name

    def _tensors(self, known: Stepper, optimizer: Optimizer) -> list[tuple[Held, torch.Tensor]]:
        """What to look at when it steps: what it holds, and what no optimizer holds in the same networks."""
        found = []
        index = 0
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                held = self.networks.parameters.values.get(id(tensor)) or known.loose.values.get(id(tensor))
                if held is None:
                    held = known.loose[tensor] = Held(tensor, "", "", f"{known.name}.{index}", None)
                    held.registered = False
                    held.optimizer = known.name
                found.append((held, tensor))
                index += 1
        for model in self._models(optimizer):
            found += [
                (held, tensor)
                for held in model.parameters
                if not held.optimizer and (tensor := held.ref()) is not None and tensor.requires_grad
            ]
        return found

    def _models(self, optimizer: Optimizer) -> list[Model]:
        names = {}
        parameters = self.networks.parameters.values
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                held = parameters.get(id(tensor))
                if held is not None:
                    names[held.network] = True
        return [self.networks.models[name] for name in names if name in self.networks.models]

    def _network_changed(self, model: Model) -> None:
        for optimizer, known in self.known.items():
            self._tell(known, optimizer)

    def _tell(self, known: Stepper, optimizer: Optimizer) -> None:
        names, unknown = [], 0
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                held = self.networks.parameters.get(tensor)
                if held is not None:
                    names.append(f"{held.network}:{held.name}")
                else:
                    unknown += 1
        if not self.networks.models:
            unknown = 0  # nothing was called yet: not unknown, only not seen so far
        self.watching.sink.part(
            Part("optimizer", known.name, known.type, _settings(optimizer), known.source, tuple(names), unknown)
        )

    def _rates(self, known: Stepper, optimizer: Optimizer) -> float | None:
        groups = optimizer.param_groups
        if known.first and len(groups) == 1 and type(groups[0].get("lr")) is float:  # nearly always
            self.watching.sink.scalar("lr", groups[0]["lr"])
            return groups[0]["lr"]
        first = None
        for index, group in enumerate(optimizer.param_groups):
            rate = group.get("lr")
            if rate is None:
                continue
            rate = float(rate)
            if index == 0:
                first = rate
            name = "lr" if known.first and index == 0 else f"lr/{known.name}" + (f"/{index}" if index else "")
            self.watching.sink.scalar(name, rate)
        return first


def _settings(optimizer: Optimizer) -> dict[str, Value]:
    found: dict[str, Value] = {"groups": len(optimizer.param_groups)}
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    for name in _SETTINGS:
        value = group.get(name)
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            value = float(value)
        if isinstance(value, tuple):
            value = ", ".join(f"{float(one):g}" for one in value)
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
    return found


def _closure(args: tuple, kwargs: dict) -> Any:
    return kwargs.get("closure") or next((one for one in args[1:] if callable(one)), None)


def _scale_inside(optimizer: Optimizer) -> float:
    """Fused optimizers unscale gradients themselves: what they still are multiplied by."""
    scale = getattr(optimizer, "grad_scale", None)
    return float(scale) if isinstance(scale, torch.Tensor) else 1.0


def _step_code() -> Any:
    return Optimizer.profile_hook_step(lambda: None).__code__
