"""pdb under Tensight: `breakpoint()`, and a stop at the user's own frame; tensors are shown with their statistics."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from tensight.frameworks import registry
from tensight.frameworks.source import user_frame
from tensight.session import current

if TYPE_CHECKING:
    from tensight.session.tensor_pdb import TensorPdb

_SHOWN = 200  # values of a tensor that are printed whole; of a larger one the statistics alone


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
        _pdb().stop_after(frame)


def hook(*args: Any, **kwargs: Any) -> None:
    """`breakpoint()` while a session runs."""
    attached = _debugpy()
    _clear_status_line()
    if attached is not None:
        attached.breakpoint()
    else:
        _pdb().set_trace(sys._getframe(1))


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


def _pdb() -> TensorPdb:
    from tensight.session.tensor_pdb import TensorPdb

    return TensorPdb(describe)


def _clear_status_line() -> None:
    session = current.current()
    clear = getattr(session.voice if session is not None else None, "_clear", None)
    if clear is not None:
        clear()


def _debugpy() -> Any:
    """debugpy, when somebody is attached through it."""
    module = sys.modules.get("debugpy")
    return module if module is not None and module.is_client_connected() else None
