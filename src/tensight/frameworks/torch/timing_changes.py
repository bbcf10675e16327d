"""Changes that can be tried on a training without touching its script: `tensight profile --try`."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tensight.frameworks.patches import Patches
from tensight.frameworks.timing_changes import read_change
from tensight.frameworks.torch.wrappers import stripped


class Changes:
    """The changes that are asked for, e.g. `workers=2` or `compile`."""

    def __init__(self, asked: Sequence[str]) -> None:
        self.notes: list[str] = []
        self._asked: dict[str, str] = {}
        for text in asked:
            name, value = read_change(text)
            self._asked[name] = value
        self.calls = bool({"channels_last", "bfloat16"} & set(self._asked))
        self._done: set[int] = set()

    def attach(self, patches: Patches) -> None:
        asked = self._asked
        if {"workers", "prefetch", "pinned", "batch"} & set(asked):
            patches.wrap(DataLoader, "__init__", self._around_loader)
        if "fused" in asked:
            for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
                patches.wrap(kind, "__init__", self._around_optimizer)
        if "bucket" in asked:
            patches.wrap(nn.parallel.DistributedDataParallel, "__init__", self._around_replica)
        if "threads" in asked:
            torch.set_num_threads(int(asked["threads"]))
        if "collector" in asked:
            gc.disable()
            patches.set(gc, "collect", lambda generation=2: 0)

    def met(self, module: nn.Module) -> None:
        """A model is about to be called for the first time."""
        if "compile" in self._asked:
            stripped(module).compile()
        if "channels_last" in self._asked:
            stripped(module).to(memory_format=torch.channels_last)

    def call(self, original: Callable[..., Any], module: nn.Module, args: tuple, kwargs: dict) -> Any:
        """An outermost call under the changes."""
        if "channels_last" in self._asked:
            args = tuple(
                one.contiguous(memory_format=torch.channels_last)
                if isinstance(one, torch.Tensor) and one.dim() == 4
                else one
                for one in args
            )
        if "bfloat16" not in self._asked:
            return original(module, *args, **kwargs)
        device = next((p.device.type for p in module.parameters()), "cpu")
        with torch.autocast(device, dtype=torch.bfloat16):
            result = original(module, *args, **kwargs)
        if isinstance(result, torch.Tensor) and result.dtype is torch.bfloat16:
            return result.float()
        return result

    def _around_loader(self, original: Any) -> Any:
        asked = self._asked

        signature = inspect.signature(original)

        def __init__(loader, *args, **kwargs):
            bound = signature.bind(loader, *args, **kwargs)
            options = bound.arguments
            if "workers" in asked:
                options["num_workers"] = int(asked["workers"])
                options["persistent_workers"] = int(asked["workers"]) > 0
            if "prefetch" in asked:
                options["prefetch_factor"] = int(asked["prefetch"])
                if not options.get("num_workers"):  # without any nothing is fetched ahead
                    options.update(num_workers=2, persistent_workers=True)
            if "pinned" in asked:
                options["pin_memory"] = True
            if "batch" in asked and options.get("batch_sampler") is None:
                options["batch_size"] = int((options.get("batch_size", 1) or 1) * float(asked["batch"]))
            original(*bound.args, **bound.kwargs)

        return __init__

    def _around_optimizer(self, original: Any) -> Any:
        def __init__(optimizer, *args, **kwargs):
            kwargs["fused"] = True
            kwargs.pop("foreach", None)
            original(optimizer, *args, **kwargs)

        return __init__

    def _around_replica(self, original: Any) -> Any:
        def __init__(replica, *args, **kwargs):
            kwargs["bucket_cap_mb"] = float(self._asked["bucket"])
            original(replica, *args, **kwargs)

        return __init__
