"""pdb under Tensight: `breakpoint()`, and a stop at the user's own frame; tensors are shown with their statistics."""

from __future__ import annotations

import contextlib
import os
import pdb
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tensight.frameworks import registry
from tensight.frameworks.source import user_frame
from tensight.session import current

_SHOWN = 200  # values of a tensor that are printed whole; of a larger one the statistics alone


class TensorPdb(pdb.Pdb):
    """pdb that shows a tensor as shape, dtype and statistics before its values; `stats EXPRESSION` shows them alone."""

    def do_p(self, arg: str) -> None:
        """p expression: print it; of a tensor the statistics too."""
        self._print(arg, str_only=False)

    do_pp = do_p

    def do_stats(self, arg: str) -> None:
        """stats expression: shape, dtype and statistics of a tensor."""
        self._print(arg, str_only=True)

    def displayhook(self, obj: Any) -> None:
        if obj is not None:
            self.message(describe(obj) or repr(obj))

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
        text = describe(value, values=not str_only)
        self.message(text or repr(value))


def describe(value: Any, *, values: bool = True) -> str:
    """A tensor in words; '' when it is none.

    >>> describe(3)
    ''
    """
    for name in registry.imported():
        adapter = registry.load(name)
        if adapter.owns(value) and hasattr(value, "shape") and hasattr(value, "dtype"):
            stats = adapter.statistics(value)
            pieces = [f"Tensor(shape={list(value.shape)}, dtype={str(value.dtype).removeprefix('torch.')})"]
            if stats.count:
                for word in ("min", "max", "mean", "l2"):
                    number = getattr(stats, word, None)
                    if number is not None:
                        pieces.append(f"{word} {number:.6g}")
                pieces.append(f"zero {stats.zero}  nan {stats.nan}  inf {getattr(stats, 'inf', stats.bad - stats.nan)}")
            text = "  ".join(pieces)
            return f"{text}\n{value!r}" if values and stats.count <= _SHOWN else text
    return ""


def can_enter() -> bool:
    """Whether somebody can answer: an attached debugpy, or a terminal."""
    return _debugpy() is not None or (sys.stdin is not None and sys.stdin.isatty())


def enter(frame: FrameType | None = None) -> None:
    """Stop at the next line of the user's own code, where the training was when we were called."""
    frame = frame or user_frame(2)
    attached = _debugpy()
    _clear_status_line()
    if attached is not None:
        attached.breakpoint()
    elif frame is not None:
        TensorPdb(nosigint=True).stop_after(frame)


def hook(*args: Any, **kwargs: Any) -> None:
    """`breakpoint()` while a session runs."""
    attached = _debugpy()
    _clear_status_line()
    if attached is not None:
        attached.breakpoint()
    else:
        TensorPdb(nosigint=True).set_trace(sys._getframe(1))


@contextlib.contextmanager
def breakpoints() -> Iterator[None]:
    """Lets `breakpoint()` open our pdb, unless the user or the environment has chosen another."""
    before = sys.breakpointhook
    if before is sys.__breakpointhook__ and "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = hook
    try:
        yield
    finally:
        if sys.breakpointhook is hook:
            sys.breakpointhook = before


def _clear_status_line() -> None:
    session = current.current()
    clear = getattr(session.voice if session is not None else None, "_clear", None)
    if clear is not None:
        clear()


def _debugpy() -> Any:
    """debugpy, when somebody is attached through it."""
    module = sys.modules.get("debugpy")
    return module if module is not None and module.is_client_connected() else None
