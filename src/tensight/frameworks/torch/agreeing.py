"""Two answers of a network that a cosine compares: whether both are trained, and still differ between samples."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

FIRST = 2  # steps that are looked at, and then every so many
EVERY = 20
_FEWEST = 8  # samples
_MOST = 1 << 20  # values
_OF_A_STEP = 4
_is_compiling = torch.compiler.is_compiling


class Agreeing:
    """Watches `cosine_similarity` of rows."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._step = -EVERY
        self._looks = 0
        for owner in (F, torch):
            patches.wrap(owner, "cosine_similarity", self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        compared = watching.probe("cosine", self._compared)

        def cosine_similarity(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.active and not watching.inside and self._is_time(watching.sink.step):
                compared(args, kwargs, result)
            return result

        return cosine_similarity

    def _is_time(self, step: int) -> bool:
        if step == self._step:
            return self._looks < _OF_A_STEP
        return step < FIRST or step - self._step >= EVERY

    def _compared(self, args: tuple, kwargs: dict, result: Any) -> None:
        watching = self.watching
        one: Any = args[0] if args else kwargs.get("x1")
        other: Any = args[1] if len(args) > 1 else kwargs.get("x2")
        if type(one) not in PLAIN or type(other) not in PLAIN or not one.requires_grad or not result.requires_grad:
            return
        if one.dim() != 2 or one.shape != other.shape or len(one) < _FEWEST or one.numel() > _MOST or not one.is_cpu:
            return
        if watching.foreign():
            return
        step = watching.sink.step
        self._looks = self._looks + 1 if step == self._step else 1
        self._step = step
        with torch.no_grad():
            spread = F.normalize(other.detach().float(), dim=1).std(0).norm()
            values: dict[str, Value] = {
                "both": other.requires_grad,
                "spread": float(spread),
                "alike": float(result.detach().mean()),
            }
        watching.sink.event("agreeing", watching.network, values, user_source())
