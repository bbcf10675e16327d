"""Lines of the user's own code: who called, from where, and under which name an object is known there."""

from __future__ import annotations

import inspect
import linecache
import os
import site
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any

from tensight.records import Source

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN_BUT_USERS = (os.path.join(_OWN, "cli", "demos"), os.path.join(_OWN, "testing"))
_LIBRARY_PARTS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = tuple(
    {os.path.realpath(p) + os.sep for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if p}
    | {os.path.abspath(p) + os.sep for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if p}
)
_LAUNCHERS = os.path.abspath(sysconfig.get_path("scripts"))  # tensight, torchrun and their like
_START = os.getcwd()
_is_user: dict[str, bool] = {}
_sources: dict[tuple[str, int], Source] = {}
_by_instruction: dict[tuple[int, int], tuple[CodeType, Source]] = {}  # which keeps the code, so that its id is its own
_MOST_FRAMES = 200


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's own: not of Tensight, of the standard library or of an installed package.

    >>> is_user_file(linecache.__file__), is_user_file("/home/me/train.py")
    (False, True)
    >>> is_user_file(os.path.join(sysconfig.get_path("scripts"), "torchrun"))
    False
    """
    known = _is_user.get(filename)
    if known is None:
        known = _is_user[filename] = _judge(filename)
    return known


def _judge(filename: str) -> bool:
    if filename.startswith(("<frozen", "<__array_function__")):
        return False
    if filename.startswith("<"):
        return True
    path = os.path.abspath(filename)
    if path.startswith(_OWN):
        return path.startswith(_OWN_BUT_USERS)
    if any(part in path for part in _LIBRARY_PARTS):
        return False
    if path.startswith(tuple(p + os.sep for p in site.getsitepackages())):
        return False
    if os.path.dirname(path) == _LAUNCHERS:
        return False
    return not path.startswith(_STANDARD)


def user_frame(skip: int = 1) -> FrameType | None:
    """The innermost frame of the user's code above the caller."""
    frame: FrameType | None = sys._getframe(skip)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        filename = frame.f_code.co_filename
        known = _is_user.get(filename)
        if known or (known is None and is_user_file(filename)):
            return frame
        frame = frame.f_back
    return None


def user_source(skip: int = 1) -> Source | None:
    """The line of the user's code that is running, or None when there is none. The text is read once per line."""
    frame: FrameType | None = sys._getframe(skip)
    users = _is_user
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        known = users.get(filename)
        if known or (known is None and is_user_file(filename)):
            # by instruction: finding the line of one takes a walk through the whole code's table
            place = (id(code), frame.f_lasti)
            seen = _by_instruction.get(place)
            if seen is None or seen[0] is not code:
                seen = _by_instruction[place] = (code, source_of(filename, frame.f_lineno, code.co_name))
            return seen[1]
        frame = frame.f_back
    return None


def user_site(skip: int = 1) -> tuple[str, int, str] | None:
    """Like `user_source`, as (file, line, function) and without reading the file: `source_of` does that later."""
    frame = user_frame(skip + 1)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def source_of(filename: str, line: int, function: str = "") -> Source:
    """A line as a record; its file relative to where the program was started, when it lies below."""
    known = _sources.get((filename, line))
    if known is None:
        code = linecache.getline(filename, line).strip()
        shown = _cell(filename) or (os.path.abspath(filename) if not filename.startswith("<") else filename)
        if shown.startswith(_START + os.sep):
            shown = shown[len(_START) + 1 :]
        known = _sources[filename, line] = Source(shown, line, code, "" if function == "<module>" else function)
    return known


def _cell(filename: str) -> str:
    """The cell of a notebook, as its reader knows it: 'In[3]'; '' of any other file."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    try:
        return str(name(filename)[1]) if name is not None else ""  # None of a file that is no cell
    except Exception:  # whatever it is: a version of IPython that names its cells in another way
        return ""


def variable_name(value: object, skip: int = 1) -> str:
    """The name that the user's code gives an object: its variable or attribute, '' when none is found.

    The outermost frame that knows it wins: that is where it was made, not a helper it was handed to.

    >>> def helper(m):
    ...     return variable_name(m)
    >>> network = object()
    >>> helper(network)
    'network'
    """
    found = ""
    frame: FrameType | None = sys._getframe(skip)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if is_user_file(frame.f_code.co_filename):
            found = _name_in(frame, value) or found
        frame = frame.f_back
    return found


def _name_in(frame: FrameType, value: object) -> str:
    variables = frame.f_locals
    try:
        name = _name_among(variables, value)
        if not name and variables is not frame.f_globals:
            name = _name_among(frame.f_globals, value)
        return name
    finally:
        # before 3.13 the snapshot of a function's variables stays with its frame and would keep tensors alive
        if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()


def _name_among(variables: dict[str, Any], value: object) -> str:
    for name, held in list(variables.items()):
        if held is value and name != "self" and not name.startswith("_"):
            return name
    for attribute, held in list(getattr(variables.get("self"), "__dict__", {}).items()):
        if held is value:
            return str(attribute).lstrip("_")
    return ""
