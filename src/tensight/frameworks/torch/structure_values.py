"""Which operator has made a tensor. Tensors are known by the memory they stand in and are never kept alive."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]


class Values:
    """Remembers for each piece of memory who has written it.

    A weak reference to each storage is held: as long as it is, no other storage gets the same address.
    """

    def __init__(self) -> None:
        self._made: dict[_Key, int] = {}  # by storage, offset, shape and strides
        self._written: dict[int, int] = {}  # by storage: the last node that wrote any of it
        self._rewritten: set[int] = set()  # storages that were written more than once
        self._held: dict[int, StorageWeakRef] = {}

    def node(self, tensor: torch.Tensor) -> int:
        """The node that a tensor comes from; -1 when it is none that was seen."""
        place = _place(tensor)
        if place is None:
            return -1
        made = self._made.get(place)
        written = self._written.get(place[0], -1)
        if made is None:
            return written
        # a view of memory that was written through another view since comes from that write
        return max(made, written) if place[0] in self._rewritten else made

    def put(self, tensor: torch.Tensor, node: int, *, written: bool) -> None:
        """A node has made a tensor (`written`), or a view of one."""
        place = _place(tensor)
        if place is None:
            return
        storage = place[0]
        if storage not in self._held:
            self._held[storage] = StorageWeakRef(tensor.untyped_storage())
            written = True
        elif written:
            self._rewritten.add(storage)
        self._made[place] = node
        if written:
            self._written[storage] = node


def storage_of(tensor: torch.Tensor) -> int | None:
    """The address of a tensor's storage; None where there is none."""
    place = _place(tensor)
    return None if place is None else place[0]


def _place(tensor: torch.Tensor) -> _Key | None:
    try:
        storage = tensor.untyped_storage()._cdata
        return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())
    except (RuntimeError, NotImplementedError, AttributeError):
        return None  # sparse and other tensors without memory of their own
