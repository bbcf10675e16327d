"""Loss scaling: `amp.DynamicLossScaler` and `StaticLossScaler` in a functional loop, the managers of `Model`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.updates import Updates
from tensight.frameworks.mindspore.values import number
from tensight.frameworks.mindspore.watching import Watching, free_name
from tensight.frameworks.source import user_source
from tensight.records import Part
from tensight.records.event import Value

Call = Callable[..., Any]


class Scaling:
    """Stands around a scaler's methods: a loss is reported as it was before scaling, a skipped update as such."""

    def __init__(self, watching: Watching, losses: Losses, updates: Updates) -> None:
        self._watching = watching
        self._losses = losses
        self._updates = updates
        self._names: IdentityMap[Any, str] = IdentityMap()

    def patch_scale(self, original: Call) -> Call:
        def scale(scaler: Any, inputs: Any) -> Any:
            result = original(scaler, inputs)
            self._watching.probe("loss scale", self._scaled, scaler, result)
            return result

        return scale

    def patch_adjust(self, original: Call) -> Call:
        def adjust(scaler: Any, grads_finite: Any) -> Any:
            result = original(scaler, grads_finite)
            self._watching.probe("loss scale", self._adjusted, scaler, grads_finite)
            return result

        return adjust

    def patch_init(self, original: Call) -> Call:
        """A loss-scale manager's constructor: `Model` reads its scale once and compiles it in."""

        def __init__(manager: Any, *args: Any, **kwargs: Any) -> None:
            original(manager, *args, **kwargs)
            self._watching.probe("loss scale", self._name, manager)

        return __init__

    def _scaled(self, scaler: Any, result: Any) -> None:
        factor = number(scaler.scale_value)
        if isinstance(result, Tensor) and factor:
            self._losses.scaled = (weakref.ref(result), factor)

    def _adjusted(self, scaler: Any, finite: Any) -> None:
        watching = self._watching
        good = bool(number(finite)) if isinstance(finite, Tensor) else bool(finite)
        scale = number(scaler.scale_value)
        watching.sink.event("scale", self._name(scaler), {"scale": scale, "overflow": not good}, user_source())
        if scale is not None:
            watching.sink.scalar("scale", scale)
        if not good and self._updates.pending:
            for optimizer in self._updates.all[-1:]:
                self._updates.stepped(optimizer, {"skipped": True})

    def _name(self, scaler: Any) -> str:
        known = self._names.get(scaler)
        if known is not None:
            return known
        base = type(scaler).__name__
        name = self._names[scaler] = free_name(base, (name for _, name in self._names.items()))
        settings: dict[str, Value] = {
            key: value
            for key in ("scale_factor", "scale_window", "_loss_scale", "loss_scale", "_drop_overflow_update")
            if isinstance(value := getattr(scaler, key, None), (bool, int, float))
        }
        settings = {key.lstrip("_"): value for key, value in settings.items()}
        self._watching.sink.part(Part("scaler", name, base, settings, user_source()))
        return name
