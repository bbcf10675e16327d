"""The line of the user's own code that is running."""

from __future__ import annotations

import linecache
import os
import sys

import mindspore

import tensight
from tensight.records import Source

_OURS = os.path.dirname(os.path.abspath(tensight.__file__)) + os.sep
_THEIRS = os.path.dirname(os.path.abspath(mindspore.__file__)) + os.sep


def user_line() -> Source | None:
    """The innermost line that is neither MindSpore's, nor ours, nor Python's own."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith((_OURS, _THEIRS, "<frozen")) or file.startswith(sys.prefix + os.sep)):
            line = frame.f_lineno
            return Source(shown(file), line, linecache.getline(file, line).strip(), frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def shown(file: str) -> str:
    """A path as the user would write it: relative when it is below the working directory."""
    here = os.getcwd() + os.sep
    return file[len(here) :] if file.startswith(here) else file
