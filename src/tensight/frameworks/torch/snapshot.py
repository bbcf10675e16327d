"""The state a step starts from: weights, buffers, optimizers, schedulers, scalers and all random generators."""

from __future__ import annotations

import copy
import gc
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from tensight.frameworks.torch.lending import beside_heap
from tensight.frameworks.torch.origin_facts import finite

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Parts:
    """What of a training has a state."""

    modules: list[nn.Module] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)  # schedulers, scalers: what has state_dict and load_state_dict

    @classmethod
    def find(cls) -> Parts:
        """All that are alive in this process. It walks every object: tens of milliseconds."""
        schedulers = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        stateful = (*schedulers, torch.amp.GradScaler)
        found = cls()
        for item in gc.get_objects():
            kind = type(item)
            # Asking an object for its class may run code of the user's; its type does not.
            if issubclass(kind, nn.Module):
                found.modules.append(item)
            elif issubclass(kind, Optimizer):
                found.optimizers.append(item)
            elif issubclass(kind, stateful):
                found.others.append(item)
        return found

    def tensors(self) -> list[torch.Tensor]:
        """Parameters and buffers, each once."""
        found: dict[int, torch.Tensor] = {}
        for module in self.modules:
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None and not tensor.is_meta:
                    found.setdefault(id(tensor), tensor)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for tensor in group["params"]:
                    found.setdefault(id(tensor), tensor)
        return list(found.values())


class Snapshot:
    """One copy of the state, into buffers that are used again."""

    def __init__(self) -> None:
        self._parts: Parts | None = None
        self._values: Pairs = []
        self._gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._optimizers: list[tuple[Optimizer, dict, list]] = []
        self._others: list[tuple[Any, dict]] = []
        self._random: Any = None

    def take(self, *, search: bool) -> int:
        """Keep the state of now; bytes held. `search` looks again for what has a state."""
        if search or self._parts is None:
            self._parts = Parts.find()
        parts = self._parts
        held = {id(live): kept for live, kept in self._values}
        before = {id(live): gradient for live, gradient in self._gradients}
        states = {id(one): state for one, state, _ in self._optimizers}
        with torch.no_grad():
            self._values = [(live, _into(held.get(id(live)), live)) for live in parts.tensors()]
            self._gradients = [
                (live, None if live.grad is None else _into(before.get(id(live)), live.grad))
                for live, _ in self._values
                if live.is_leaf and live.requires_grad
            ]
            self._optimizers = [(one, _state(one, states.get(id(one), {})), _groups(one)) for one in parts.optimizers]
        self._others = [(one, copy.deepcopy(one.state_dict())) for one in parts.others]
        self._random = _random_states()
        return self.bytes

    def is_live_finite(self) -> bool:
        """Whether the weights that were kept the last time are still finite in the training."""
        return all(finite(live) for live, _ in self._values if isinstance(live, nn.Parameter))

    def mend(self) -> None:
        """When weights of the training are not finite, give it the kept ones."""
        if not self.is_live_finite():
            with torch.no_grad():
                for live, kept in self._values:
                    live.data.copy_(kept)

    @property
    def bytes(self) -> int:
        kept = [copied for _, copied in self._values]
        kept += [gradient for _, gradient in self._gradients if gradient is not None]
        for _, state, _groups_of in self._optimizers:
            kept += [value for entry in state.values() for value in entry.values() if isinstance(value, torch.Tensor)]
        return sum(tensor.numel() * tensor.element_size() for tensor in kept)

    def replaced(self) -> list[tuple[int, int]]:
        """Memory (address, bytes) whose values `put_back` writes, and that of tensors which it takes the place of."""
        found = [place for live, _ in self._values for place in _place(live)]
        found += [place for live, _ in self._gradients if live.grad is not None for place in _place(live.grad)]
        for optimizer, _, _ in self._optimizers:
            for entry in optimizer.state.values():
                found += [place for value in entry.values() if torch.is_tensor(value) for place in _place(value)]
        return found

    def put_back(self) -> bool:
        """Bring the kept state back into the objects of the training; False when nothing is kept."""
        if self._parts is None:
            return False
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for live, kept in self._values:
                live.data.copy_(kept)
            for live, gradient in self._gradients:
                live.grad = gradient
            for optimizer, state, groups in self._optimizers:
                optimizer.state.clear()
                optimizer.state.update({parameter: dict(entry) for parameter, entry in state.items()})
                for group, kept in zip(optimizer.param_groups, groups):
                    group.update(kept)
            for one, state in self._others:
                one.load_state_dict(state)
        _set_random_states(self._random)
        return True


def _place(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Where the values of a dense tensor in main memory lie; nothing of one that looks into another's."""
    plain = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout is torch.strided and tensor.is_cpu
    if not plain or tensor._base is not None or not tensor.numel():
        return
    if 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) == tensor.numel():
        yield tensor.data_ptr(), tensor.nbytes


def _into(held: Any, live: torch.Tensor) -> torch.Tensor:
    """A copy, in the memory of the copy before where it fits.

    New memory each time, and memory that stands long among what comes and goes in a step, lets a heap grow.
    """
    live = live.detach()
    if type(held) is torch.Tensor and held.layout is torch.strided and _alike(held, live):
        return held.copy_(live)
    return beside_heap(live)


def _alike(held: torch.Tensor, live: torch.Tensor) -> bool:
    for name in ("shape", "dtype", "device", "layout"):
        if getattr(held, name) != getattr(live, name):
            return False
    # what was put back is the training's own from then on
    return held.stride() == live.stride() and held.data_ptr() != live.data_ptr()


def _state(optimizer: Optimizer, before: dict) -> dict:
    found = {}
    for parameter, entry in optimizer.state.items():
        held = before.get(parameter, {})
        found[parameter] = {
            key: _into(held.get(key), value) if isinstance(value, torch.Tensor) else copy.copy(value)
            for key, value in entry.items()
        }
    return found


def _groups(optimizer: Optimizer) -> list[dict]:
    return [
        {
            key: value.clone() if isinstance(value, torch.Tensor) else copy.copy(value)
            for key, value in group.items()
            if key != "params"
        }
        for group in optimizer.param_groups
    ]


def _random_states() -> tuple:
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def _set_random_states(states: tuple) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])
