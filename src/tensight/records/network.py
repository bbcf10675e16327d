"""The static parts of a training: models, optimizers, loaders, losses, scalers, schedulers."""

from __future__ import annotations

import msgspec

from tensight.records.event import Value
from tensight.records.source import Source


class Module(msgspec.Struct, frozen=True, omit_defaults=True):
    """A module by its path; wrappers of DDP, FSDP and compile are stripped."""

    path: str
    type: str
    activation: bool = False
    source: Source | None = None  # where the user created it, as far as known
    settings: dict[str, Value] = {}  # p of a dropout, dim of a softmax, inplace, …


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A parameter or buffer. `role` is 'weight', 'bias', 'norm_scale', 'norm_shift', 'embedding' or 'buffer'."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool = True
    buffer: bool = False
    role: str = "weight"
    module: str = ""
    tied_to: str = ""
    optimizer: str = ""  # name of the optimizer that holds it, '' when none does
    registered: bool = True  # False: found outside named_parameters(), e.g. in a plain list

    @property
    def size(self) -> int:
        """
        >>> Parameter("w", (2, 3), "float32").size
        6
        """
        total = 1
        for length in self.shape:
            total *= length
        return total


class Network(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model: sent again, whole, when it has changed."""

    name: str
    type: str
    modules: tuple[Module, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    compiled: bool = False
    source: Source | None = None


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """An optimizer, loader, loss, scaler or scheduler that was found. Sent again when it has changed."""

    kind: str  # 'optimizer' | 'loader' | 'loss' | 'scaler' | 'scheduler'
    name: str  # unique in its kind: 'Adam', 'Adam-2'
    type: str
    settings: dict[str, Value] = {}  # lr, momentum, weight_decay; batch_size, shuffle, workers; …
    source: Source | None = None
    parameters: tuple[str, ...] = ()  # optimizer: 'network:parameter' of what it holds
    unknown_parameters: int = 0  # optimizer: held, but part of no known network
