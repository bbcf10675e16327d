"""Gradient clipping: `ops.clip_by_global_norm`, `clip_by_norm` and `clip_by_value` on gradients."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mindspore import Tensor

from tensight.frameworks.mindspore.operators import flat
from tensight.frameworks.mindspore.swaps import Swaps
from tensight.frameworks.mindspore.updates import Updates
from tensight.frameworks.mindspore.values import Unjudged, measured, number, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source
from tensight.records import Needs
from tensight.records.event import Value

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

Call = Callable[..., Any]
_PLACE = "mindspore.ops.function.clip_func"
_LIMITS = {"clip_by_global_norm": ("clip_norm", 1.0), "clip_by_norm": ("max_norm", None), "clip_by_value": ("", None)}


class Clipping:
    """Clipping gives new gradients and leaves no trace, so the functions that do it are stood in for."""

    def __init__(self, watching: Watching, updates: Updates, cells: Cells, swaps: Swaps) -> None:
        self._watching = watching
        self._updates = updates
        self._cells = cells
        self._told = (-1, -1)
        module = sys.modules.get(_PLACE)
        for name in _LIMITS:
            swaps.wrap(getattr(module, name, None), self._stand_in(name))

    def _stand_in(self, name: str) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def clip(*args: Any, **kwargs: Any) -> Any:
                watching = self._watching
                told = not (watching.busy or watching.backward or self._cells.inside or self._cells.stack)
                if told and self._updates.pending:  # between a backward pass and an update: gradients
                    watching.probe("clipping", self._clipped, name, args, kwargs)
                return original(*args, **kwargs)

            return clip

        return make

    def _clipped(self, name: str, args: Any, kwargs: Any) -> None:
        once = (self._watching.sink.step, self._updates.pending)
        if once == self._told:
            return  # gradients may be clipped one by one
        self._told = once
        given = args[0] if args else kwargs.get("x")
        values: dict[str, Value] = {}
        if name == "clip_by_value":
            high = args[2] if len(args) > 2 else kwargs.get("clip_value_max")
            values["max_value"] = number(high)
        else:
            key, usual = _LIMITS[name]
            values["max_norm"] = number(args[1] if len(args) > 1 else kwargs.get(key, usual))
            if self._watching.some and isinstance(given, (tuple, list)):
                values["norm"] = norm([tensor for tensor in flat(given) if isinstance(tensor, Tensor)])
        self._watching.sink.event("clip", "", values, user_source())


def norm(tensors: list[Tensor]) -> float | None:
    """Of all tensors together, over their finite values."""
    found = []
    for tensor in tensors:
        try:
            found.append(measured(view(tensor), Needs()).l2 or 0.0)
        except Unjudged:
            return None
    return math.hypot(*found)
