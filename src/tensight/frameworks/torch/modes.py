"""Switches between training and evaluation mode, and `zero_grad` of modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Model, Networks
from tensight.frameworks.torch.watching import Watching
from tensight.frameworks.torch.wrappers import stripped, walk
from tensight.records import Source
from tensight.records.event import Value

_is_compiling = torch.compiler.is_compiling


class Modes:
    """Watches `Module.train` (which `eval` calls) and `Module.zero_grad`."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self._inside = False
        self._early: IdentityMap[nn.Module, tuple[bool, Source | None]] = IdentityMap()
        networks.changed_hooks.append(self._network_changed)
        patches.wrap(nn.Module, "train", self._around_train)
        patches.wrap(nn.Module, "zero_grad", self._around_zero_grad)

    def _around_train(self, original: Any) -> Any:
        watching = self.watching
        switched = watching.probe("mode", self._switched)

        def train(module, mode=True):
            if self._inside or _is_compiling() or not watching.active:
                return original(module, mode)
            self._inside = True  # it calls itself for every module below
            try:
                result = original(module, mode)
            finally:
                self._inside = False
            switched(module, mode)
            return result

        return train

    def _switched(self, module: nn.Module, mode: bool) -> None:
        module = stripped(module)
        entry = self.networks.entries.get(module)
        source = user_source()
        if entry is None:
            self._early[module] = (bool(mode), source)  # of no network yet; told when it becomes one
            return
        self._tell(entry.network, entry.path, bool(mode), source)

    def _tell(self, network: str, node: str, mode: bool, source: Source | None) -> None:
        self.watching.sink.event("mode", network, {"node": node, "training": mode}, source)

    def _network_changed(self, model: Model) -> None:
        root = model.ref()
        if root is None or not len(self._early):
            return
        for path, module in walk(root):
            early = self._early.pop(module)
            if early is not None:
                self._tell(model.name, path, *early)

    def _around_zero_grad(self, original: Any) -> Any:
        watching = self.watching
        happened = watching.probe("zero_grad", self._zeroed)

        def zero_grad(module, *args, **kwargs):
            result = original(module, *args, **kwargs)
            if watching.active and not _is_compiling():
                happened(module, args[0] if args else kwargs.get("set_to_none", True))
            return result

        return zero_grad

    def _zeroed(self, module: nn.Module, set_to_none: bool) -> None:
        entry = self.networks.entries.get(stripped(module))
        self.watching.unzeroed = False
        values: dict[str, Value] = {"set_to_none": bool(set_to_none), "module": "" if entry is None else entry.path}
        self.watching.sink.event("zero_grad", "" if entry is None else entry.network, values, user_source())
