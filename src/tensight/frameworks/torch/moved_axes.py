"""`view` and `reshape` that give axes another order: they move no values, so what belonged together is cut apart.

An axis that is there before and after must have as many values behind it as before; where it has not, what is called
the same axis afterwards runs across others. What is told are the shapes; which axis is the batch is known later.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching

FIRST = 4  # steps that are looked at
_MOST = 64  # events
_is_compiling = torch.compiler.is_compiling


class MovedAxes:
    """Watches view and reshape in the first steps."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._told = 0
        for owner, name in ((torch.Tensor, "view"), (torch.Tensor, "reshape"), (torch, "reshape")):
            patches.wrap(owner, name, self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        seen = watching.probe("view", self._seen)

        def view(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.deep and watching.sink.step < FIRST and not watching.inside:
                seen(args, result, sys._getframe(1).f_code.co_filename)
            return result

        return view

    def _seen(self, args: tuple, result: Any, file: str) -> None:
        watching = self.watching
        given: Any = args[0] if args else None
        if type(given) not in PLAIN or type(result) not in PLAIN or self._told >= _MOST or not is_user_file(file):
            return
        moved = moved_axes(given.shape, result.shape)
        if not moved or watching.foreign():
            return
        self._told += 1
        watching.sink.event(
            "moved_axes",
            watching.network,
            {
                "from": "x".join(map(str, given.shape)),
                "to": "x".join(map(str, result.shape)),
                "sizes": "x".join(map(str, moved)),
                "module": watching.scopes[-1].entry.path if watching.scopes else "",
            },
            user_source(),
        )


def moved_axes(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    """Lengths of axes that can be told apart on both sides and have more or fewer values behind them than before.

    >>> moved_axes((32, 10, 4), (10, 32, 4)), moved_axes((32, 10, 4), (320, 4)), moved_axes((2, 32, 8), (32, 16))
    ([32, 10], [], [32])
    >>> moved_axes((32, 10, 64), (32, 10, 4, 16)), moved_axes((32, 10, 64), (32, 4, 10, 16))
    ([], [10])
    """
    return [
        size
        for at, size in enumerate(before)
        if size > 1
        and before.count(size) == 1
        and after.count(size) == 1
        and math.prod(before[at + 1 :]) != math.prod(after[after.index(size) + 1 :])
    ]
