"""Statistics that were taken of an operator's result, for whoever looks at the same tensor later in the step.

At level op a module's output, a gradient on its way back and the gradient of a parameter are all results of operators
that were read when they were made. A result is known by its object and its version; nothing is kept alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch

from tensight.records import Needs, Stats

SMALL = 2048  # values that are read sooner than remembered
SAME_VALUES = frozenset(
    f"aten.{name}" for name in ("view", "reshape", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze")
)


class Measured:
    """Results of this step's operators with their statistics.

    >>> measured, tensor = Measured(), torch.ones(4096)
    >>> measured.add(tensor, Needs(), Stats(4096))
    >>> measured.find(tensor, Needs()).count
    4096
    >>> measured.find(tensor.add_(1), Needs()) is None
    True
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[torch.Tensor], int, Needs, Stats]] = {}
        self._stored: dict[int, list[int]] = {}  # which of them lie in a storage, by its address

    def clear(self) -> None:
        """A step begins."""
        self._found.clear()
        self._stored.clear()

    def written(self, tensors: Iterable[torch.Tensor]) -> None:
        """An operator has written in place: what shares memory is another now, and by way of `.data` no version tells.

        >>> measured, tensor = Measured(), torch.ones(4096)
        >>> measured.add(tensor, Needs(), Stats(4096))
        >>> measured.written([tensor.data[:2]])
        >>> measured.find(tensor, Needs()) is None
        True
        """
        if self._stored:
            for tensor in tensors:
                for key in self._stored.pop(_storage(tensor), ()):
                    self._found.pop(key, None)

    def add(self, tensor: torch.Tensor, needs: Needs, stats: Stats, *, written: bool = False) -> None:
        """Remember a tensor. One that an operator has just `written` in place gets its next version only afterwards."""
        if stats.count >= SMALL and not tensor.is_inference():
            self._found[id(tensor)] = weakref.ref(tensor), tensor._version + written, needs, stats
            self._stored.setdefault(_storage(tensor), []).append(id(tensor))

    def find(self, tensor: torch.Tensor, needs: Needs) -> Stats | None:
        """Statistics of this very tensor as it is now, if they hold all that is needed."""
        known = self._found.get(id(tensor))
        if known is None or known[1] != tensor._version or known[0]() is not tensor:
            return None
        return known[3] if known[2].ranges == needs.ranges else None

    def pass_on(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """`other` has the memory and the version of `tensor`."""
        known = self._found.get(id(tensor))
        if known is not None and known[0]() is tensor:
            self._found[id(other)] = weakref.ref(other), *known[1:]
            self._stored.setdefault(_storage(other), []).append(id(other))

    def passed_on(self, operator: str, given: tuple, needs: Needs) -> Stats | None:
        """Statistics of what an operator makes that only looks at its argument in another way."""
        if operator in SAME_VALUES and given and isinstance(given[0], torch.Tensor):
            return self.find(given[0], needs)
        return None


def _storage(tensor: torch.Tensor) -> int:
    """Address of the memory a tensor looks at; 0 where there is none (sparse tensors, those without values)."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0
