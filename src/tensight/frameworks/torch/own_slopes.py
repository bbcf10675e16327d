"""Functions with a backward written by hand: whether what it gives is the slope of what forward gives.

Nothing of the user's is called again. Of a function that works value by value, one step shows thousands of values, what
became of each, and by how much its backward multiplied the gradient there: in order of the values, what forward rises
by between two of them is the sum of slopes between them. Where forward has no slope of its own (round, sign, a copy of
the input), another backward is meant, and nothing is said. A function that is a matrix product is compared with what
autograd gives for one (see `own_products`).
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from tensight.frameworks.adapter import Array
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.torch.own_products import Product, product_of, wrong_gradient
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching, to_numpy
from tensight.records import Source
from tensight.records.event import Value

FIRST = 6  # steps that are looked at
_LOOKS = 3  # at each function
_FEWEST = 256  # values
_MOST = 4096
_BINS = 24
_COVERED = 0.3  # share of the way of forward that is judged
_JUMP = 0.5  # of what a stretch rises by, in one place: a step, no slope
_WINDING = 8.0  # how often it may go up and down over its whole range: more is no function of one value
_COPY = 1e-6  # a result this near the input, against its size
_EXACT = frozenset({torch.float32, torch.float64})  # in others neighbours differ by rounding
_is_compiling = torch.compiler.is_compiling


class OwnSlopes:
    """Watches `apply` of the user's own `torch.autograd.Function`s."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._looks: dict[type, int] = {}
        applied = watching.probe("own function", self._applied)
        original = torch.autograd.Function.__dict__["apply"].__func__

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(cls, *args, **kwargs)
            if not _is_compiling() and watching.deep and watching.sink.step < FIRST and not watching.inside:
                applied(cls, args, result)
            return result

        apply.__module__, apply.__qualname__, apply.__doc__ = (
            original.__module__,
            original.__qualname__,
            original.__doc__,
        )
        apply.__wrapped__ = original  # type: ignore[attr-defined]
        patches.set(torch.autograd.Function, "apply", classmethod(apply))

    def _applied(self, cls: type, args: tuple, result: Any) -> None:
        watching = self.watching
        node = getattr(result, "grad_fn", None)
        if type(result) not in PLAIN or node is None or result.numel() < _FEWEST or result.is_meta:
            return
        if result.dtype not in _EXACT or result.layout is not torch.strided:
            return
        forward = inspect.getattr_static(cls, "forward", None)
        code = getattr(getattr(forward, "__func__", forward), "__code__", None)
        if code is None or not is_user_file(code.co_filename) or watching.foreign():
            return
        if self._looks.get(cls, 0) >= _LOOKS or getattr(node, "_forward_cls", None) is not cls:
            return
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        product = product_of(tensors, result)
        if product is not None:
            self._looks[cls] = self._looks.get(cls, 0) + 1
            self._compare(cls, node, len(tensors), product, result)
            return
        like = [
            at
            for at, one in enumerate(tensors)
            if one.requires_grad and type(one) in PLAIN and one.shape == result.shape and one.dtype == result.dtype
        ]
        if len(like) != 1 or tensors[like[0]].data_ptr() == result.data_ptr():
            return
        self._looks[cls] = self._looks.get(cls, 0) + 1
        self._follow(cls, node, len(tensors), like[0], tensors[like[0]], result)

    def _follow(self, cls: type, node: Any, count: int, at: int, given: torch.Tensor, result: torch.Tensor) -> None:
        watching = self.watching
        x, y = _few(given), _few(result)
        shape = result.shape
        module, network, step = self._place()

        def look(inputs: tuple, outputs: tuple) -> None:
            if len(inputs) != count or len(outputs) != 1 or watching.sink.step != step:
                return
            back, came = inputs[at], outputs[0]
            if back is None or came is None or back.shape != shape or came.shape != shape:
                return
            differs = slopes_differ(x, y, _few(back), _few(came))
            if differs is not None:
                watching.sink.event("own_slope", network, _values(cls, module, *differs), _backward_of(cls))

        self._hook(node, look)

    def _compare(self, cls: type, node: Any, count: int, product: Product, result: torch.Tensor) -> None:
        watching = self.watching
        shape = result.shape
        module, network, step = self._place()

        def look(inputs: tuple, outputs: tuple) -> None:
            if len(inputs) != count or len(outputs) != 1 or watching.sink.step != step:
                return
            came = outputs[0]
            wrong = wrong_gradient(product, inputs, came) if came is not None and came.shape == shape else None
            if wrong is not None:
                place, differs, opposite = wrong
                values = _values(cls, module, differs, opposite) | {"argument": place}
                watching.sink.event("own_slope", network, values, _backward_of(cls))

        self._hook(node, look)

    def _place(self) -> tuple[str, str, int]:
        """The module that calls, its network, the step."""
        watching = self.watching
        entry = watching.scopes[-1].entry if watching.scopes else None
        return "" if entry is None else entry.path, watching.network, watching.sink.step

    def _hook(self, node: Any, look: Any) -> None:
        watching = self.watching
        seen = watching.probe("own backward", look)

        def hook(inputs: tuple, outputs: tuple) -> None:
            if watching.active:
                seen(inputs, outputs)

        node.register_hook(hook)


def _few(tensor: torch.Tensor) -> Array:
    flat = tensor.detach().reshape(-1)
    return to_numpy(flat[:: max(1, flat.numel() // _MOST)][:_MOST]).astype(np.float64)


def _values(cls: type, module: str, differs: float, opposite: float) -> dict[str, Value]:
    return {"function": cls.__name__, "module": module, "differs": differs, "opposite": opposite}


def _backward_of(cls: type) -> Source | None:
    backward = inspect.getattr_static(cls, "backward", None)
    code = getattr(getattr(backward, "__func__", backward), "__code__", None)
    if code is None:
        return None
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return source_of(code.co_filename, code.co_firstlineno, code.co_name)
    returns = [number for number, text in enumerate(lines) if text.strip().startswith("return ")]
    return source_of(code.co_filename, first + (returns[-1] if returns else 0), code.co_name)


def slopes_differ(x: Array, y: Array, back: Array, came: Array) -> tuple[float, float] | None:
    """By how much of the way of forward its slope and that of backward differ, and on which share they are opposite.

    None where that cannot be told: no function of one value each, a copy, steps.

    >>> x = np.linspace(-2, 2, 999)
    >>> ones = np.ones_like(x)
    >>> [round(one, 2) for one in slopes_differ(x, np.tanh(x), 1 - np.tanh(x) ** 2, ones)]
    [0.0, 0.0]
    >>> [round(one, 2) for one in slopes_differ(x, np.tanh(x), np.tanh(x) ** 2 - 1, ones)]
    [2.0, 1.0]
    >>> slopes_differ(x, np.sign(x), ones, ones), slopes_differ(x, x, -ones, ones)
    (None, None)
    """
    fits = np.isfinite(x) & np.isfinite(y) & np.isfinite(back) & np.isfinite(came)
    fits &= np.abs(came) > 1e-3 * np.abs(came[fits]).mean() if fits.any() else fits
    x, y, back, came = x[fits], y[fits], back[fits], came[fits]
    if x.size < _FEWEST // 2 or np.abs(y - x).max() <= _COPY * np.abs(x).max():
        return None
    order = np.argsort(x, kind="stable")
    x, y, slope = x[order], y[order], (back / came)[order]
    if _winds(y) or _winds(slope):
        return None
    way = off = opposite = 0.0
    whole = float(np.abs(np.diff(y)).sum())
    for stretch in np.array_split(np.arange(x.size), _BINS):
        if stretch.size < 4:
            continue
        begin, end = stretch[0], stretch[-1] + 1
        apart, rises = np.diff(x[begin:end]), np.diff(y[begin:end])
        rise = float(rises.sum())
        moved = np.abs(rises).sum()
        if not moved or abs(rise) < 0.5 * moved or np.abs(rises).max() > _JUMP * moved:
            continue  # a step, or a turn
        if (rises[apart > 0] == 0).mean() > 0.2:
            continue
        said = float(((slope[begin : end - 1] + slope[begin + 1 : end]) / 2 * apart).sum())
        way += abs(rise)
        off += abs(rise - said)
        opposite += abs(rise) * (rise * said < 0)
    return (off / way, opposite / way) if whole and way > _COVERED * whole else None


def _winds(values: Array) -> bool:
    span = float(values.max() - values.min())
    return span > 0 and float(np.abs(np.diff(values)).sum()) > _WINDING * span
