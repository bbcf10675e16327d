"""Divisions by zero while the data is prepared, before any network is called.

A column whose values are all the same has a standard deviation of 0: `(x - x.mean(0)) / x.std(0)` makes NaN of it, long
before the step that meets it. Divisions are looked at until the first network is called, and left alone from then on.
"""

from __future__ import annotations

from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching

_SMALL = 1 << 16  # values of a divisor
_SHARED = 4  # values that each of its own divides, at least: a statistic of many
_MOST = 8  # divisions that are told
_LISTED = 6  # places
_is_compiling = torch.compiler.is_compiling


class Dividing:
    """Watches tensors divided by a statistic of theirs."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._told = 0
        self._patches = Patches()
        for owner, name in (
            (torch.Tensor, "__truediv__"),
            (torch.Tensor, "div"),
            (torch.Tensor, "__itruediv__"),
            (torch.Tensor, "div_"),
            (torch, "div"),
        ):
            self._patches.wrap(owner, name, self._around)

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins, of a loop without any module perhaps."""
        self.stop()

    def stop(self) -> None:
        """A network is called: the data is there."""
        self._patches.restore()

    def _around(self, original: Any) -> Any:
        watching = self.watching
        divided = watching.probe("division", self._divided)

        def div(*args, **kwargs):
            result = original(*args, **kwargs)
            if _is_compiling():
                return result
            if watching.attached and len(args) > 1 and type(args[1]) in PLAIN and not watching.inside:
                divided(args[1], result)
            return result

        return div

    def _divided(self, divisor: torch.Tensor, result: Any) -> None:
        if self._told >= _MOST or type(result) not in PLAIN or not divisor.is_cpu or not result.is_floating_point():
            return
        if not 0 < divisor.numel() <= min(_SMALL, result.numel() // _SHARED):
            return
        with torch.no_grad():
            zero = divisor == 0
            count = int(zero.sum())
            if not count:
                return
            bad = result.isnan()
            constant = int((bad | ~zero).all()) if bad.shape == zero.shape else int(bad[zero.expand(bad.shape)].all())
        self._told += 1
        places = zero.reshape(-1).nonzero().reshape(-1)[:_LISTED].tolist()
        values = {
            "zeros": count,
            "size": divisor.numel(),
            "places": ", ".join(map(str, places)),
            "column": places[0],
            "nan": int(bad.sum()),
            "constant": bool(constant),  # 0 / 0 wherever it divides: nothing but its mean was there
            "shape": "x".join(map(str, result.shape)),
        }
        self.watching.sink.event("divided_by_zero", "", values, user_source())
