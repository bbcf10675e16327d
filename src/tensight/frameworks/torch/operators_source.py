"""Which line of the user's own code a call came from.

A frame is kept as (code object, instruction): both are cheap to take. Text and line number are looked up later, once
per call site.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from types import CodeType

import torch

import tensight
from tensight.records import Source

Site = tuple[CodeType, int]

_OURS = os.path.dirname(os.path.abspath(tensight.__file__)) + os.sep
_LIBRARIES = tuple(
    {
        os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
        *(sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_USER, _LIBRARY, _TENSIGHT = 0, 1, 2
_kinds: dict[str, int] = {}


def _kind(filename: str) -> int:
    kind = _kinds.get(filename)
    if kind is None:
        path = os.path.abspath(filename)
        if filename.startswith("<") and not filename.startswith(("<ipython", "<stdin")):
            kind = _LIBRARY
        elif path.startswith(_OURS):
            kind = _TENSIGHT
        elif path.startswith(_LIBRARIES):
            kind = _LIBRARY
        else:
            kind = _USER
        _kinds[filename] = kind
    return kind


def is_user(filename: str) -> bool:
    """Whether a file is the user's own: no part of Python, an installed package, the framework or Tensight.

    >>> is_user(torch.__file__)
    False
    """
    return _kind(filename) == _USER


def call_site(skip: int = 2) -> tuple[Site | None, bool]:
    """The innermost frame of the user's code above the caller's caller, and whether Tensight itself made the call.

    A wrapper of ours around a function of the framework may stand in between; only a direct call counts as ours.
    """
    frame = sys._getframe(skip)
    ours = _kind(frame.f_code.co_filename) == _TENSIGHT
    while frame is not None:
        if _kind(frame.f_code.co_filename) == _USER:
            return (frame.f_code, frame.f_lasti), ours
        frame = frame.f_back
    return None, ours


def shown(filename: str) -> str:
    """A path as the user would write it: relative when it lies below the working directory."""
    try:
        path = os.path.relpath(filename)
    except (ValueError, OSError):
        return filename
    return filename if path.startswith("..") else path


@functools.lru_cache(maxsize=4096)
def resolve(site: Site) -> Source:
    """File, line and text of a call site."""
    code, instruction = site
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if number is not None and start <= instruction < end:
            line = number
            break
    text = linecache.getline(code.co_filename, line).strip()
    return Source(file=shown(code.co_filename), line=line, code=text, function=code.co_name)
