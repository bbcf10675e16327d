"""Replacing parts of MindSpore and putting them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Patch:
    owner: Any
    name: str
    original: Any
    ours: Any
    inherited: bool  # the owner had no attribute of its own
    compilable: bool


class Patches:
    """Every replaced attribute, in order.

    `compilable` marks what MindSpore's graph compiler may come across in the user's code. It compiles the Python it
    finds, so these are lifted while it works: ours would be compiled into the user's graph, or fail to.
    """

    def __init__(self) -> None:
        self._patches: list[_Patch] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any], *, compilable: bool = False) -> None:
        """Put `make(original)` in the place of an attribute of a class or module."""
        original = getattr(owner, name)
        ours = make(original)
        self._patches.append(_Patch(owner, name, original, ours, name not in vars(owner), compilable))
        setattr(owner, name, ours)

    def restore(self) -> None:
        """Put back what was found. What somebody else has replaced since is theirs and stays."""
        while self._patches:
            patch = self._patches.pop()
            if vars(patch.owner).get(patch.name) is not patch.ours:
                continue
            if patch.inherited:
                delattr(patch.owner, patch.name)
            else:
                setattr(patch.owner, patch.name, patch.original)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """The time of a compilation, in which the compiler finds MindSpore as it was."""
        lifted = [p for p in self._patches if p.compilable and vars(p.owner).get(p.name) is p.ours]
        for patch in lifted:
            setattr(patch.owner, patch.name, patch.original)
        try:
            yield
        finally:
            for patch in lifted:
                if patch in self._patches:
                    setattr(patch.owner, patch.name, patch.ours)
