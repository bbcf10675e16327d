"""Collectives that the program calls itself, in order: the same order on all ranks, or tensors are mixed up.

Ranks that call them in another order hang, or, when shapes happen to fit, silently sum what does not belong together.
"""

from __future__ import annotations

import functools
import weakref
import zlib
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching

NAMES = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "all_to_all"),
    *("reduce_scatter", "reduce_scatter_tensor", "all_to_all_single", "barrier"),
)
SLOTS = 16  # collectives of a step that are told one by one; what follows is told as one
_MOST = 4_096
_is_compiling = torch.compiler.is_compiling


class Collectives:
    """Notes them from update to update."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self._calls: list[tuple[str, str, weakref.ref | None, int]] = []  # name, what it was given, itself, line
        self._inside = False
        if torch.distributed.is_available():
            for name in NAMES:
                if hasattr(torch.distributed, name):
                    patches.wrap(torch.distributed, name, functools.partial(self._around, name=name))

    def _around(self, original: Any, name: str) -> Any:
        note = self.watching.probe("collective", self._note)

        def collective(*args, **kwargs):
            if _is_compiling() or self._inside or not self.watching.attached:
                return original(*args, **kwargs)
            note(name, args, kwargs)
            self._inside = True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False

        return collective

    def _note(self, name: str, args: tuple, kwargs: dict) -> None:
        group = kwargs.get("group", next((one for one in args if _is_group(one)), None))
        if len(self._calls) >= _MOST or not (group is None or group is torch.distributed.group.WORLD):
            return  # other groups have orders of their own
        first = args[0] if args else next(iter(kwargs.values()), None)
        tensor = first if isinstance(first, torch.Tensor) else None
        line = user_source()
        what, itself = "", None
        if tensor is not None:
            what = f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"
            itself = weakref.ref(tensor) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else None
        self._calls.append((name, what, itself, 0 if line is None else line.line))

    def forget(self) -> None:
        """A step is over."""
        self._calls.clear()

    def told(self) -> tuple[list[int], list[str]]:
        """A number for each of the first collectives since the last update, and words for them."""
        if not self._calls:
            return [], []
        names = self._names()
        words = []
        for name, what, itself, line in self._calls[:SLOTS]:
            # A tensor that is gone has no name: what lies in its place by now is another one, on each rank another.
            tensor = itself() if itself is not None else None
            known = names.get(tensor.data_ptr()) if tensor is not None else None
            words.append(f"{name} of {known}" if known else f"{name} of {what} (line {line})" if what else name)
        sums = [zlib.crc32(word.encode()) for word in words]
        rest = [(name, what) for name, what, _, _ in self._calls[SLOTS:]]
        sums += [0] * (SLOTS - len(sums))
        return [*sums, zlib.crc32(repr(rest).encode())], words

    def _names(self) -> dict[int, str]:
        """Where parameters and their gradients lie."""
        found: dict[int, str] = {}
        for model in self.networks.models.values():
            for held in model.parameters:
                tensor = held.ref()
                if tensor is None or not tensor.numel():
                    continue
                found[tensor.data_ptr()] = held.name
                if tensor.grad is not None:
                    found[tensor.grad.data_ptr()] = f"the gradient of {held.name}"
        return found


def _is_group(value: object) -> bool:
    return isinstance(value, torch.distributed.ProcessGroup)
