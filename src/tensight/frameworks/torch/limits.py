"""Values held at a limit by `clamp`, where no gradient comes through, and values that `exp` makes huge but finite."""

from __future__ import annotations

import math
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

FIRST = 8  # steps that are looked at
_OF_A_STEP = 8  # calls
_FEWEST = 8  # values
_HUGE = 1e3  # times what exp was given: exp(9) is not far from it, exp(10) is past it
_is_compiling = torch.compiler.is_compiling


class Limits:
    """Watches clamp and clip, and exp: between modules nothing else tells what has made values so large."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._step = -1
        self._looks = 0
        for owner in (torch, torch.Tensor):
            for name in ("clamp", "clip"):
                patches.wrap(owner, name, self._around)
            patches.wrap(owner, "exp", self._around_exp)

    def _around_exp(self, original: Any) -> Any:
        watching = self.watching
        grown = watching.probe("exp", self._grown)

        def exp(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.deep and watching.sink.step < FIRST and not watching.inside:
                grown(args, kwargs, result)
            return result

        return exp

    def _grown(self, args: tuple, kwargs: dict, result: Any) -> None:
        watching = self.watching
        given: Any = args[0] if args else kwargs.get("input")
        if not self._looked_at(given, result):
            return
        with torch.no_grad():
            low, high = (float(one) for one in torch.aminmax(given.detach().float()))
            largest = float(result.detach().float().max())
        if not math.isfinite(largest) or largest < _HUGE * max(1.0, abs(low), abs(high)):
            return
        entry = watching.scopes[-1].entry if watching.scopes else None
        values: dict[str, Value] = {
            "function": "exp",
            "given": high,
            "largest": largest,
            "module": "" if entry is None else entry.path,
        }
        watching.sink.event("grown", watching.network, values, user_source())

    def _looked_at(self, given: Any, result: Any) -> bool:
        watching = self.watching
        if type(given) not in PLAIN or type(result) not in PLAIN or not result.requires_grad or watching.foreign():
            return False
        if result.numel() < _FEWEST or result.shape != given.shape:
            return False
        if watching.sink.step != self._step:
            self._step, self._looks = watching.sink.step, 0
        self._looks += 1
        return self._looks <= _OF_A_STEP

    def _around(self, original: Any) -> Any:
        watching = self.watching
        held = watching.probe("clamp", self._held)

        def clamp(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.deep and watching.sink.step < FIRST and not watching.inside:
                held(args, kwargs, result)
            return result

        return clamp

    def _held(self, args: tuple, kwargs: dict, result: Any) -> None:
        watching = self.watching
        given: Any = args[0] if args else kwargs.get("input")
        if not self._looked_at(given, result):
            return
        with torch.no_grad():
            share = float((given.detach() != result.detach()).double().mean())
            low, high = torch.aminmax(given.detach().float())
        entry = watching.scopes[-1].entry if watching.scopes else None
        values: dict[str, Value] = {
            "function": "clamp",
            "share": share,
            "smallest": float(low),
            "largest": float(high),
            "module": "" if entry is None else entry.path,
        }
        for at, name in ((1, "min"), (2, "max")):
            limit = args[at] if len(args) > at else kwargs.get(name)
            if isinstance(limit, (int, float)):
                values[name] = float(limit)
        watching.sink.event("held", watching.network, values, user_source())
