"""Gradients of a scaled loss: whether they are divided by the scale before an optimizer uses them.

They may be divided by the scaler, by hand, in place or not. Only their values tell: the first numbers of each gradient
are kept where the gradient was taken, and compared with those that the optimizer is given.
"""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn

from tensight.frameworks.mindspore.losses import FIRST, Losses
from tensight.frameworks.mindspore.operators import flat
from tensight.frameworks.mindspore.values import Unjudged, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source

_NUMBERS = 64


class Unscaling:
    """Looks at the first steps, and only where a scaler has multiplied the loss."""

    def __init__(self, watching: Watching, losses: Losses) -> None:
        self._watching = watching
        self._losses = losses
        self._came: tuple[float, list[bytes]] | None = None

    def came(self, weights: Any, result: Any) -> None:
        """Gradients were taken of the last loss."""
        factor, self._came = self._losses.factor, None
        if factor != 1 and self._watching.sink.step < FIRST:
            count = sum(isinstance(weight, Parameter) for weight in flat(tuple(weights)))
            self._came = factor, [marks(value) for value in list(flat(result))[-count:]]

    def used(self, name: str, cell: nn.Cell, gradients: Any) -> None:
        """An optimizer is about to use these."""
        held, self._came = self._came, None
        if held is None or float(getattr(cell, "loss_scale", 1.0) or 1.0) != 1.0:
            return
        factor, before = held
        now = [marks(value) for value in flat(gradients)]
        told = [(one, other) for one, other in zip(before, now) if one.strip(b"\0")]
        if len(now) == len(before) and told and all(one == other for one, other in told):
            self._watching.sink.event("still_scaled", name, {"scale": factor}, user_source())


def marks(value: Any) -> bytes:
    """The first numbers of a gradient, as they are in memory."""
    try:
        return view(value).reshape(-1)[:_NUMBERS].tobytes() if isinstance(value, Tensor) else b""
    except Unjudged:
        return b""
