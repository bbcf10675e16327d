"""Stacks of operators: which lines of the user's code and of libraries have called them."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import tokenize
from types import CodeType, FrameType

import torch

import tensight
from tensight.frameworks.source import is_user_file, source_of
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder

_OURS = os.path.dirname(os.path.abspath(tensight.__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MACHINERY = tuple(_TORCH + name for name in ("_compile.py", "_dynamo", "_ops.py", os.path.join("utils", "_python")))
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_LOADING = os.path.join("torch", "utils", "data") + os.sep
_OBSERVER = tuple(os.path.join(_OURS, "frameworks", "torch", name) for name in ("structure", "operators.py"))
_DEEPEST = 100


class Stacks:
    """Reads the stack that is running into a builder. What a line is, is found out once."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        # by code and instruction; the code is kept with it, so that its id stays its own
        self._known: dict[tuple[int, int], tuple[CodeType, Frame | None]] = {}

    def here(self) -> int | None:
        """The number of the stack that is running; -1 when no line of the user's is in it, None inside a loader."""
        frames: list[Frame] = []
        last = 0  # how many frames there are up to the outermost of the user's
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_DEEPEST):
            if frame is None:
                break
            found = self._frame(frame)
            if found is not None:
                frames.append(found)
                if found.file.startswith(_LOADING):
                    return None
                if found.user:
                    last = len(frames)
            frame = frame.f_back
        return self._builder.stack(frames[:last])

    def _frame(self, frame: FrameType) -> Frame | None:
        code = frame.f_code
        place = (id(code), frame.f_lasti)
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = (code, self._read(code.co_filename, frame.f_lineno, code.co_name))
        return known[1]

    def _read(self, file: str, line: int, function: str) -> Frame | None:
        user = is_user_file(file)
        if not user and file.startswith((_OURS, *_MACHINERY)):
            return None
        if user:
            source = source_of(file, line)
            self._builder.file(source.file, "".join(linecache.getlines(file)))
            return Frame(source.file, line, function, source.code)
        shown = file
        for part in _PACKAGES:
            shown = shown.rpartition(part)[2]
        return Frame(shown, line, function, _line(file, line), False)


def _line(file: str, line: int) -> str:
    """A line of a library's file. Not by way of linecache, which keeps whole files: a framework's are large."""
    if file in linecache.cache:
        return linecache.getline(file, line).strip()
    try:
        with tokenize.open(file) as lines:
            return next(itertools.islice(lines, line - 1, line), "").strip()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""


def called_by_us() -> bool:
    """Whether Tensight calls for itself. Its wrappers, which know the `original`, only pass on what the user calls."""
    frame = _calling()
    while frame is not None:
        file = frame.f_code.co_filename
        ours = file.startswith(_OURS) and not is_user_file(file)
        if not file.startswith(_TORCH) and not (ours and "original" in frame.f_code.co_freevars):
            return ours
        frame = frame.f_back
    return False


def begins_backward() -> bool:
    """Whether `backward` makes the first gradient now."""
    frame = _calling()
    return frame is not None and frame.f_code.co_filename.startswith(_TORCH + "autograd")


def _calling() -> FrameType | None:
    """The frame that has called the operator, behind the observer and the framework's machinery."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((*_OBSERVER, *_MACHINERY)):
        frame = frame.f_back
    return frame
