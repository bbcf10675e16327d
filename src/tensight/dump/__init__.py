"""Dumps: writing tensors of a training to files as MindSpore lays them out, and reading dumps that others made.

with tensight.dump(model, optimizer=optimizer, path="/tmp/dump", iteration="0|2"):
    ...
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensight.session.watching import Watching


class _Callable(types.ModuleType):
    """This package: once imported it hides the function of the same name in `tensight`, so it can be called too."""

    def __call__(self, *args: Any, **settings: Any) -> Watching:
        function = importlib.import_module("tensight.session.dumping").dump
        made: Watching = function(*args, **settings)
        return made


sys.modules[__name__].__class__ = _Callable
