"""A table keyed by objects themselves, which it does not keep alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class IdentityMap(Generic[K, V]):
    """Like `weakref.WeakKeyDictionary`, by identity: for keys that compare elementwise or cannot be hashed.

    `values` may be read directly by `id(key)` where every nanosecond counts; an entry goes as soon as its key does.

    >>> class Key:
    ...     __hash__ = None
    >>> key, table = Key(), IdentityMap()
    >>> table[key] = 1
    >>> key in table, table.get(Key())
    (True, None)
    >>> del key
    >>> len(table)
    0
    """

    def __init__(self) -> None:
        self.values: dict[int, V] = {}
        self._refs: dict[int, weakref.ref[K]] = {}

    def __setitem__(self, key: K, value: V) -> None:
        number = id(key)
        if number not in self._refs:
            values, refs = self.values, self._refs

            def gone(_: object) -> None:
                values.pop(number, None)
                refs.pop(number, None)

            self._refs[number] = weakref.ref(key, gone)
        self.values[number] = value

    def get(self, key: K) -> V | None:
        return self.values.get(id(key))

    def __contains__(self, key: object) -> bool:
        return id(key) in self.values

    def __len__(self) -> int:
        return len(self.values)

    def pop(self, key: K) -> V | None:
        self._refs.pop(id(key), None)
        return self.values.pop(id(key), None)

    def items(self) -> Iterator[tuple[K, V]]:
        for number, ref in list(self._refs.items()):
            key = ref()
            if key is not None and number in self.values:
                yield key, self.values[number]

    def clear(self) -> None:
        self.values.clear()
        self._refs.clear()
