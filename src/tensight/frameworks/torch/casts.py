"""Changes of the number format: back and forth in every forward pass, and whole numbers that a format cannot hold."""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.statistics import dtype_name
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source
from tensight.records.event import Value

_METHODS = ("to", "half", "float", "double", "bfloat16", "type", "long", "int")
_EXACT = {torch.float16: 2**11, torch.bfloat16: 2**8}  # whole numbers up to here are held exactly
_SMALLER = frozenset(_EXACT)
_WIDE = 2**24  # the same of float32
_FEWEST = 16  # distinct values that one speaks of when they become fewer
_MOST_CHECKS = 64
_MOST_VALUES = 1 << 20
_is_compiling = torch.compiler.is_compiling

Way = tuple[torch.dtype, torch.dtype]


class Casts:
    """Watches methods of tensors that change the number format."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._ways: Counter[Way] = Counter()  # in the forward passes of this step
        self._lines: dict[Way, Counter[Source | None]] = {}
        self._checks = self._wide_checks = 0
        self._rounded: list[tuple[weakref.ref, Source | None, float]] = []  # whole numbers that were rounded, lately
        for name in _METHODS:
            patches.wrap(torch.Tensor, name, functools.partial(self._around, name=name))
        patches.wrap(torch, "arange", self._around_arange)

    def _around(self, original: Any, name: str) -> Any:
        watching = self.watching
        happened = watching.probe("cast", self._happened)

        def cast(tensor, *args, **kwargs):
            result = original(tensor, *args, **kwargs)
            if _is_compiling() or not watching.active or result is tensor or type(result) not in PLAIN:
                return result
            if watching.inside:
                return result  # ours
            if result.dtype is not tensor.dtype and (watching.deep or result.dtype is torch.float32):
                happened(tensor, result)
            return result

        return cast

    def _around_arange(self, original: Any) -> Any:
        watching = self.watching
        counted = watching.probe("cast", self._counted)

        def arange(*args, **kwargs):
            result = original(*args, **kwargs)
            if _is_compiling() or not watching.deep or watching.inside or result.dtype not in _SMALLER:
                return result
            if type(result) in PLAIN:
                counted(result)
            return result

        return arange

    def _counted(self, result: torch.Tensor) -> None:
        """Positions are made in a small format at once."""
        if self._checks >= _MOST_CHECKS or not 2 < result.numel() <= _MOST_VALUES or result.device.type != "cpu":
            return
        self._checks += 1
        left = torch.unique(result.detach().float()).numel()
        largest = float(result.detach().float().abs().max())
        if left < result.numel() and largest > _EXACT[result.dtype]:
            self._tell(result.dtype, largest, "positions", result.numel() - left, result.numel(), user_source())

    def _happened(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        watching = self.watching
        if not watching.outermost and result.dtype is torch.float32 and tensor.dtype in (torch.float64, torch.int64):
            self._stamps(tensor, result)
            return
        if not watching.deep:
            return
        if watching.outermost:
            if result.dtype in _SMALLER and not tensor.requires_grad and tensor.dim() <= 2:
                self._check(tensor, result)
            if watching.observing and tensor.is_floating_point() and result.is_floating_point() and tensor.dim():
                way = (tensor.dtype, result.dtype)
                self._ways[way] += 1
                self._lines.setdefault(way, Counter())[user_source()] += 1
            return
        self._check(tensor, result)

    def _check(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        if type(tensor) not in PLAIN or type(result) not in PLAIN:
            return  # to look at the values of a DTensor may communicate
        if self._checks < _MOST_CHECKS and 0 < tensor.numel() <= _MOST_VALUES and tensor.device.type == "cpu":
            if result.dtype in _SMALLER:
                self._rounds(tensor, result)
            elif tensor.dtype in _SMALLER and not result.is_floating_point():
                self._as_numbers(tensor)

    def _rounds(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Whole numbers go into a format that cannot hold all of them."""
        self._checks += 1
        with torch.no_grad():
            values, kept = tensor.detach().double(), result.detach().double()
            whole = values == values.round()
            changed = whole & (values != kept) & kept.isfinite()
            if not bool(changed.any()):
                return
            largest = float(values[changed].abs().max())
        del self._rounded[:-7]
        self._rounded.append((weakref.ref(result), user_source(), largest))
        flat = values.reshape(-1)
        if flat.numel() > 2 and bool((flat[1:] - flat[:-1] == 1).all()):
            left = torch.unique(kept).numel()
            self._tell(result.dtype, largest, "positions", flat.numel() - left, flat.numel(), user_source())

    def _stamps(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Large whole numbers close together, as of times in seconds, become the same in float32."""
        if type(tensor) not in PLAIN or self._wide_checks >= _MOST_CHECKS // 2 or tensor.device.type != "cpu":
            return
        if tensor.requires_grad or not _FEWEST <= tensor.numel() <= _MOST_VALUES:
            return
        self._wide_checks += 1
        with torch.no_grad():
            values = tensor.detach().reshape(-1).double()
            large = values[(values.abs() > _WIDE) & (values == values.round())]
            if large.numel() < _FEWEST:
                return
            before = torch.unique(large)
            left = torch.unique(before.float()).numel()
            if before.numel() >= _FEWEST and 2 * left <= before.numel():
                largest = float(before.abs().max())
                self._tell(result.dtype, largest, "times", before.numel() - left, before.numel(), user_source())

    def _as_numbers(self, tensor: torch.Tensor) -> None:
        """Values of a small format are used as whole numbers: indices, labels."""
        with torch.no_grad():
            values = tensor.detach().float()
            high = values[values.isfinite()].abs()
            if (
                not high.numel()
                or float(high.max()) <= _EXACT[tensor.dtype]
                or not bool((values == values.round()).all())
            ):
                return
        lossy = next((one for one in reversed(self._rounded) if one[0]() is not None), None)
        source = lossy[1] if lossy is not None else user_source()
        many = int((high > _EXACT[tensor.dtype]).sum())
        self._tell(tensor.dtype, float(high.max()), "numbers", many, values.numel(), source)

    def _tell(self, dtype: torch.dtype, largest: float, what: str, lost: int, of: int, source: Source | None) -> None:
        values: dict[str, Value] = {
            "dtype": dtype_name(dtype),
            "exact_to": _EXACT.get(dtype, _WIDE),
            "largest": largest,
            "what": what,
            "lost": lost,
            "of": of,
        }
        self.watching.sink.event("cast_loss", self.watching.network, values, source)

    def before_update(self) -> None:
        """An optimizer is about to step: tell of formats that were left and come back to in this step."""
        if not self._ways:
            return
        ways, lines = self._ways, self._lines
        self._ways, self._lines = Counter(), {}
        left: set[Way] = set()
        for (here, there), count in ways.items():
            back = ways.get((there, here), 0)
            left.add((here, there))
            # The format that is left first is home. From a narrow one to a wider and back is how half precision keeps
            # its sums exact.
            if not back or (there, here) in left or not (_wider(here, there) or there is torch.float64):
                continue
            source = max(lines[here, there], key=lines[here, there].__getitem__)
            values: dict[str, Value] = {
                "home": dtype_name(here),
                "away": dtype_name(there),
                "trips": min(count, back),
                "casts": count + back,
                "lines": len(lines[here, there]),
            }
            self.watching.sink.event("casts", self.watching.network, values, source)
            return


def _wider(a: torch.dtype, b: torch.dtype) -> bool:
    return torch.finfo(a).bits > torch.finfo(b).bits
