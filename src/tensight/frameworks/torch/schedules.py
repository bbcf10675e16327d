"""Learning-rate schedulers and gradient clipping."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch.optim import lr_scheduler

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.optimizers import Optimizers
from tensight.frameworks.torch.plateau import Told, plain
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records import Part
from tensight.records.event import Value

_SETTINGS = (
    *("step_size", "gamma", "T_max", "eta_min", "T_0", "T_mult", "total_steps", "total_iters", "factor", "patience"),
    *("start_factor", "end_factor", "power", "milestones", "mode", "threshold", "cooldown"),
)


class Schedulers:
    """Watches learning-rate schedulers."""

    def __init__(self, watching: Watching, optimizers: Optimizers, patches: Patches) -> None:
        self.watching = watching
        self.optimizers = optimizers
        self.known: IdentityMap[object, str] = IdentityMap()
        self._plateaus: IdentityMap[object, tuple[Part, Told]] = IdentityMap()  # those that wait for one
        self._names: set[str] = set()
        self._inside = 0
        base = lr_scheduler.LRScheduler
        patches.wrap(base, "__init__", self._around_init)
        kinds = {kind for kind in vars(lr_scheduler).values() if isinstance(kind, type) and issubclass(kind, base)}
        for kind in sorted(kinds, key=lambda kind: kind.__name__):
            if "step" in vars(kind):
                patches.wrap(kind, "step", self._around_step)

    def _around_init(self, original: Any) -> Any:
        watching = self.watching
        found = watching.probe("scheduler", self._found)

        def __init__(scheduler, *args, **kwargs):
            self._inside += 1  # the constructor takes a first step of its own
            try:
                original(scheduler, *args, **kwargs)
            finally:
                self._inside -= 1
            if watching.attached and not self._inside:
                found(scheduler)

        return __init__

    def _around_step(self, original: Any) -> Any:
        watching = self.watching
        stepped = watching.probe("scheduler step", self._stepped)
        read = watching.probe("scheduler step", self._read)
        plateau = lr_scheduler.ReduceLROnPlateau

        def step(scheduler, *args, **kwargs):
            self._inside += 1
            try:
                result = original(scheduler, *args, **kwargs)
            finally:
                self._inside -= 1
            if watching.attached and not self._inside and isinstance(scheduler, plateau):
                read(scheduler, args[0] if args else kwargs.get("metrics"))  # each counts, asleep or not; they are few
            if watching.active and not self._inside:
                stepped(scheduler)
            return result

        return step

    def _found(self, scheduler: Any) -> str:
        name = self.known.get(scheduler)
        if name is None:
            kind = type(scheduler).__name__
            name, number = kind, 2
            while name in self._names:
                name, number = f"{kind}-{number}", number + 1
            self._names.add(name)
            self.known[scheduler] = name
            settings: dict[str, Value] = {"optimizer": self.optimizers.name_of(getattr(scheduler, "optimizer", None))}
            base = getattr(scheduler, "base_lrs", None)
            if base and isinstance(base[0], (int, float)):
                settings["base_lr"] = float(base[0])  # what it multiplies: the optimizer has the product by now
            for setting in _SETTINGS:
                value = getattr(scheduler, setting, None)
                if isinstance(value, (bool, int, float, str)):
                    settings[setting] = value
            part = Part("scheduler", name, kind, settings, user_source())
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                self._plateaus[scheduler] = part, Told()
            self.watching.sink.part(part)
        return name

    def _read(self, scheduler: Any, metric: object) -> None:
        """A plateau was looked for in a number."""
        self._found(scheduler)
        known, value, rate = self._plateaus.get(scheduler), plain(metric), scheduler.optimizer.param_groups[0]["lr"]
        if known is None or value is None or not isinstance(rate, (int, float)):
            return
        part, told = known
        if told.reading(self.watching.sink.step, value, float(rate)):
            self.watching.sink.part(msgspec.structs.replace(part, settings={**part.settings, **told.settings()}))

    def _stepped(self, scheduler: Any) -> None:
        name = self._found(scheduler)
        optimizer = getattr(scheduler, "optimizer", None)
        groups = getattr(optimizer, "param_groups", None) or [{}]
        rate = groups[0].get("lr")
        values: dict[str, Value] = {} if rate is None else {"lr": float(rate)}
        count = getattr(scheduler, "last_epoch", None)  # its own, for not every call of it is seen
        if isinstance(count, int):
            values["count"] = count
        self.watching.sink.event("scheduler_step", name, values, user_source())


class Clipping:
    """Watches `clip_grad_norm_` and `clip_grad_value_`."""

    def __init__(
        self, watching: Watching, optimizers: Optimizers, patches: Patches, changed: Callable[[], object]
    ) -> None:
        self.watching = watching
        self.optimizers = optimizers
        self._changed = changed  # called when gradients were clipped
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            patches.wrap(torch.nn.utils.clip_grad, name, functools.partial(self._around, name=name))
            patches.set(torch.nn.utils, name, getattr(torch.nn.utils.clip_grad, name))

    def _around(self, original: Any, name: str) -> Any:
        watching = self.watching
        clipped = watching.probe("clip", self._clipped)

        def clip(parameters, limit, *args, **kwargs):
            if not watching.active:
                return original(parameters, limit, *args, **kwargs)
            if not isinstance(parameters, torch.Tensor):
                parameters = list(parameters)  # a generator can be read once
            result = original(parameters, limit, *args, **kwargs)
            clipped(name, parameters, limit, result)
            return result

        def clip_grad_norm_(parameters, max_norm, *args, **kwargs):
            return clip(parameters, max_norm, *args, **kwargs)

        def clip_grad_value_(parameters, clip_value, *args, **kwargs):
            return clip(parameters, clip_value, *args, **kwargs)

        return clip_grad_norm_ if name == "clip_grad_norm_" else clip_grad_value_

    def _clipped(self, name: str, parameters: Any, limit: Any, result: Any) -> None:
        first = parameters if isinstance(parameters, torch.Tensor) else next(iter(parameters), None)
        part = "" if first is None else self.optimizers.networks.optimizer_of.get(first) or ""
        values: dict[str, Value]
        if name == "clip_grad_norm_":
            values = {"max_norm": float(limit)}
            if type(result) in PLAIN and result.device.type == "cpu":  # to read a DTensor may communicate
                values["norm"] = float(result)
        else:
            values = {"max_value": float(limit)}
        self._changed()
        self.watching.sink.event("clip", part, values, user_source())
