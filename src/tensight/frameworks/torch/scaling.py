"""Loss scaling: the scale, updates it left out, and gradients as they really are."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.amp import grad_scaler

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.optimizers import Optimizers
from tensight.frameworks.torch.watching import Watching
from tensight.records import Part
from tensight.records.event import Value

_SETTINGS = {
    "init_scale": "_init_scale",
    "growth_factor": "_growth_factor",
    "backoff_factor": "_backoff_factor",
    "growth_interval": "_growth_interval",
    "enabled": "_enabled",
}


class Scaling:
    """Watches `torch.amp.GradScaler`."""

    def __init__(self, watching: Watching, optimizers: Optimizers, patches: Patches) -> None:
        self.watching = watching
        self.optimizers = optimizers
        self.known: IdentityMap[object, str] = IdentityMap()
        self._scaled: list[tuple[weakref.ref, float]] = []
        self._skipped = False
        scaler = grad_scaler.GradScaler
        patches.wrap(scaler, "__init__", self._around_init)
        patches.wrap(scaler, "scale", self._around_scale)
        patches.wrap(scaler, "unscale_", self._around_unscale)
        patches.wrap(scaler, "step", self._around_step)
        patches.wrap(scaler, "update", self._around_update)

    def scale_of(self, root: torch.Tensor) -> float:
        """What the loss was multiplied by before `backward` was called on it."""
        for ref, scale in self._scaled:
            if ref() is root:
                return scale
        return 1.0

    def _around_init(self, original: Any) -> Any:
        watching = self.watching
        found = watching.probe("scaler", self._found)

        def __init__(scaler, *args, **kwargs):
            original(scaler, *args, **kwargs)
            if watching.attached:
                found(scaler)

        return __init__

    def _found(self, scaler: Any) -> str:
        name = self.known.get(scaler)
        if name is None:
            kind = type(scaler).__name__
            name = kind if not len(self.known) else f"{kind}-{len(self.known) + 1}"
            self.known[scaler] = name
            settings: dict[str, Value] = {
                shown: value
                for shown, attribute in _SETTINGS.items()
                if isinstance(value := getattr(scaler, attribute, None), (bool, int, float))
            }
            self.watching.sink.part(Part("scaler", name, kind, settings, user_source()))
        return name

    def _around_scale(self, original: Any) -> Any:
        watching = self.watching
        note = watching.probe("loss scale", self._scaled_loss)

        def scale(scaler, outputs):
            result = original(scaler, outputs)
            if watching.active and scaler._enabled:
                note(scaler, result)
            return result

        return scale

    def _scaled_loss(self, scaler: Any, result: Any) -> None:
        self._scaled = [(ref, scale) for ref, scale in self._scaled[-7:] if ref() is not None]
        scale = scaler.get_scale()
        for tensor in [result] if isinstance(result, torch.Tensor) else result:
            if isinstance(tensor, torch.Tensor):
                self._scaled.append((weakref.ref(tensor), scale))

    def _unscaled(self, optimizer: Any) -> None:
        self.watching.sink.event("unscale", self.optimizers.name_of(optimizer), {}, user_source())

    def _around_unscale(self, original: Any) -> Any:
        watching = self.watching
        tell = watching.probe("unscale", self._unscaled)

        def unscale_(scaler, optimizer):
            result = original(scaler, optimizer)
            if watching.active and scaler._enabled:
                tell(optimizer)
            return result

        return unscale_

    def _around_step(self, original: Any) -> Any:
        watching = self.watching
        skipped = watching.probe("skipped update", self.optimizers.skipped)
        steps = watching.probe("scaler step", self._steps)
        unscales = watching.probe("unscale", self._unscaled)

        def step(scaler, optimizer, *args, **kwargs):
            if not watching.active or not scaler._enabled:
                return original(scaler, optimizer, *args, **kwargs)
            if getattr(optimizer, "_step_supports_amp_scaling", False):
                unscales(optimizer)  # by itself, within its step
            before = steps(optimizer)
            result = original(scaler, optimizer, *args, **kwargs)
            self._skipped = before is not None and steps(optimizer) == before
            if self._skipped:
                skipped(optimizer)
            return result

        return step

    def _steps(self, optimizer: Any) -> int:
        return self.optimizers.add(optimizer).steps

    def _around_update(self, original: Any) -> Any:
        watching = self.watching
        updated = watching.probe("scale", self._updated)

        def update(scaler, *args, **kwargs):
            result = original(scaler, *args, **kwargs)
            if watching.active and scaler._enabled:
                updated(scaler)
            return result

        return update

    def _updated(self, scaler: Any) -> None:
        scale = float(scaler.get_scale())
        overflow, self._skipped = self._skipped, False
        self.watching.sink.event("scale", self._found(scaler), {"scale": scale, "overflow": overflow}, user_source())
        self.watching.sink.scalar("scale", scale)
