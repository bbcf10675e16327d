"""The debugger of the standard library, showing tensors with their statistics. Imported when somebody stops in it."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class TensorPdb(pdb.Pdb):
    """pdb that shows a tensor as shape, dtype and statistics before its values; `stats EXPRESSION` shows them alone."""

    def __init__(self, describe: Callable[..., str]) -> None:
        super().__init__(nosigint=True)
        self._describe = describe

    def do_p(self, arg: str) -> None:
        """p expression: print it; of a tensor the statistics too."""
        self._print(arg, str_only=False)

    do_pp = do_p

    def do_stats(self, arg: str) -> None:
        """stats expression: shape, dtype and statistics of a tensor."""
        self._print(arg, str_only=True)

    def displayhook(self, obj: Any) -> None:
        if obj is not None:
            self.message(self._describe(obj) or repr(obj))

    def stop_after(self, frame: FrameType) -> None:
        """Stop at the next line of a frame that is further out, and not in what runs until then."""
        self.reset()
        outer: FrameType | None = frame
        while outer is not None:
            outer.f_trace = self.trace_dispatch
            self.botframe = outer
            outer = outer.f_back
        self.set_next(frame)
        getattr(self, "start_trace", lambda: sys.settrace(self.trace_dispatch))()

    def _print(self, arg: str, *, str_only: bool) -> None:
        try:
            value = self._getval(arg)
        except Exception:
            return  # pdb has said why
        text = self._describe(value, values=not str_only)
        self.message(text or repr(value))
