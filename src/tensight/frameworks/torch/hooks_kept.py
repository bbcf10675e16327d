"""Hooks that the user's own code registers step after step on the same object, and never removes."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source
from tensight.records.event import Value

MANY = 10  # alive together, registered by one line in as many different steps
_MOST_LINES = 32
_KINDS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
_is_compiling = torch.compiler.is_compiling


class HooksKept:
    """Counts the hooks of each line that are still there; told once of each."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self._handles: dict[tuple[Source | None, int], list[tuple[int, Any]]] = {}  # line and owner → step, handle
        self._told: set[Source | None] = set()
        for name in _KINDS:
            patches.wrap(nn.Module, name, self._around)
        patches.wrap(torch.Tensor, "register_hook", self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        registered = watching.probe("hooks", self._registered)

        def register(owner, *args, **kwargs):
            handle = original(owner, *args, **kwargs)
            if not _is_compiling() and watching.attached and is_user_file(sys._getframe(1).f_code.co_filename):
                registered(owner, handle)
            return handle

        return register

    def _registered(self, owner: Any, handle: Any) -> None:
        # what a step computes goes with its step, hooks and all
        if isinstance(owner, torch.Tensor) and not owner.is_leaf:
            return
        source, step = user_source(), self.watching.sink.step
        held = handle.hooks_dict_ref()
        if held is None or source in self._told:
            return
        key = (source, id(held))
        alive = [one for one in self._handles.get(key, ()) if _alive(one[1], held)]
        if not alive or alive[-1][0] != step:
            alive.append((step, handle))
        self._handles[key] = alive[-MANY:]
        if len(self._handles) > _MOST_LINES:
            del self._handles[next(iter(self._handles))]
        if len(alive) >= MANY:
            self._told.add(source)
            entry = self.networks.entries.get(owner) if isinstance(owner, nn.Module) else None
            values: dict[str, Value] = {
                "module": entry.path if entry is not None else None,
                "owner": type(owner).__name__,
                "since": alive[0][0],
                "alive": len(held),
            }
            self.watching.sink.event("hooks_kept", entry.network if entry is not None else "", values, source)


def _alive(handle: Any, held: dict) -> bool:
    return handle.hooks_dict_ref() is held and handle.id in held
