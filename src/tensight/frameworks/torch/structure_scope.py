"""Where the operators of the structure step run: network, module, and which passes only repeat an earlier one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.wrappers import stripped


class Place(NamedTuple):
    """A module of a network; both are '' outside all networks."""

    network: str = ""
    path: str = ""
    type: str = ""


OUTSIDE = Place()
UPDATE = Place("", "update")


class StructureScope(Scope):
    """Follows module calls by the names that networks have. `repeats` is set in passes of gradient accumulation."""

    def __init__(self, networks: Networks) -> None:
        super().__init__()
        self.repeats = False
        self._networks = networks
        self._places: list[Place] = []
        self._outermost: int | None = None  # id of the module that was called last from outside
        self._backwards = 0  # how many there were when it was called

    @property
    def module(self) -> str:
        return self.place.path

    @property
    def place(self) -> Place:
        return self._places[-1] if self._places else OUTSIDE

    def updated(self) -> None:
        """An optimizer has stepped: what comes now is no repetition."""
        self._outermost, self.repeats = None, False

    def _enter(self, module: nn.Module, inputs: object) -> None:
        inner = stripped(module)
        entry = self._networks.entries.values.get(id(inner))
        if not self._places and torch.is_grad_enabled() and entry is not None:
            # called again after a backward pass, with nothing in between: the next pass of the same step
            self.repeats = self._outermost == id(inner) and len(self.losses) > self._backwards
            self._outermost, self._backwards = id(inner), len(self.losses)
        self._places.append(self.place if entry is None else Place(entry.network, entry.path, entry.type))

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        del self._places[-1:]  # which never fails, whatever another thread does
