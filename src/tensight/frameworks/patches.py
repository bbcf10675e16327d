"""Reversible replacement of attributes of a framework's modules and classes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

_ABSENT = object()
_stand_ins: set[CodeType] = set()  # of functions that only stand between the user and the framework
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # all of the package


class Patches:
    """Attributes that were replaced, and what was there before.

    >>> class Owner:
    ...     answer = 1
    >>> patches = Patches()
    >>> patches.set(Owner, "answer", 2)
    >>> Owner.answer
    2
    >>> patches.restore()
    >>> Owner.answer
    1
    """

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []  # owner, name, what was there, ours

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Put `value` in place of an attribute; what only was inherited is uncovered again by `restore`."""
        self._made.append((owner, name, vars(owner).get(name, _ABSENT), value))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by `make(function)`. Does nothing where this version has no such attribute.

        The new function goes by the name and place of the old one, so that objects that refer to it are pickled, and
        its signature and help are shown, as before.
        """
        original = getattr(owner, name, None)
        if original is None:
            return
        made = make(original)
        of_class = isinstance(owner, type)
        made.__module__ = owner.__module__ if of_class else owner.__name__
        made.__name__ = name
        made.__qualname__ = f"{owner.__qualname__}.{name}" if of_class else name
        made.__doc__ = original.__doc__
        made.__wrapped__ = original
        if isinstance(made, FunctionType):
            _stand_ins.add(made.__code__)
        self.set(owner, name, made)

    def functions(self) -> list[FunctionType]:
        """Ours, where a function stands for another."""
        return [ours for _, _, _, ours in self._made if isinstance(ours, FunctionType)]

    def restore(self) -> None:
        """Undo everything. What somebody else put over ours meanwhile stays: ours is inert below it."""
        for owner, name, before, ours in reversed(self._made):
            if vars(owner).get(name) is ours:
                self._put_back(owner, name, before)
        self._made.clear()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Without the replacements for a while, for code that looks at functions instead of calling them."""
        off = [entry for entry in reversed(self._made) if vars(entry[0]).get(entry[1]) is entry[3]]
        for owner, name, before, _ in off:
            self._put_back(owner, name, before)
        try:
            yield
        finally:
            for owner, name, _, ours in reversed(off):
                setattr(owner, name, ours)

    @staticmethod
    def _put_back(owner: Any, name: str, before: Any) -> None:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def is_ours(function: Any) -> bool:
    """Whether a function was put in the place of another by Tensight.

    >>> is_ours(print), is_ours(is_ours)
    (False, True)
    """
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(_HERE)


def stands_in(code: CodeType) -> bool:
    """Whether code is that of a function of Tensight's which calls what it stands for: its caller is who asked."""
    return code in _stand_ins
