"""Lines of the user's code that may cut the graph: `detach()`, `.data`, `no_grad`, a way through NumPy.

They are read from the source once, so that a rule which has established that no gradient passes can say where.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.torch.networks import Model, Networks
from tensight.frameworks.torch.watching import Watching
from tensight.frameworks.torch.wrappers import walk
from tensight.records import Source

_MOST = 24  # lines of a run
_CUTS = (
    ("detach", re.compile(r"\.detach_?\(")),
    ("no_grad", re.compile(r"\b(?:no_grad|inference_mode|set_grad_enabled)\b")),
    ("data", re.compile(r"\.data\b(?!\s*[=.]?\s*(?:copy_|fill_|normal_|uniform_|mul_|add_|sub_|clamp_|=))")),
    ("numpy", re.compile(r"\.numpy\(|\bfrom_numpy\(")),
    ("item", re.compile(r"\.item\(|\.tolist\(")),
    ("tensor", re.compile(r"\btorch\.(?:as_)?tensor\(")),
    ("argmax", re.compile(r"\bargmax\(|\bone_hot\(|\.long\(")),
    ("round", re.compile(r"\.(?:round|floor|ceil|sign|trunc|heaviside)_?\(")),
)
_NEW_LEAF = (("new_leaf", re.compile(r"\brequires_grad(?:_\(|\s*=\s*True)|\bVariable\(")),)


class Cuts:
    """Tells of such lines in the `forward` of the user's modules, and around the first backward pass."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self._read: set[CodeType] = set()
        self._told = 0
        self._looked_around = False
        networks.changed_hooks.append(watching.probe("cuts", self._network_changed))

    def _network_changed(self, model: Model) -> None:
        root = model.ref()
        if root is None:
            return
        for path, module in walk(root):
            for forward in _own(type(module)):
                code = forward.__code__
                if code not in self._read and is_user_file(code.co_filename):
                    self._read.add(code)
                    for function, source in cut_lines(code):
                        self._tell(model.name, path, function, source)

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        if self._looked_around or self.watching.sink.step > 2:
            return
        self._looked_around = True
        anew = root.grad_fn is None and root.requires_grad  # a loss that has no graph: it was made of numbers
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if is_user_file(code.co_filename):
                if code not in self._read:
                    self._read.add(code)
                    for function, source in cut_lines(code):
                        self._tell(self.watching.network, None, function, source)
                if anew:
                    for made_by in (code, *_named(frame)):
                        for function, source in cut_lines(made_by, _NEW_LEAF):
                            self._tell(self.watching.network, None, function, source)
            frame = frame.f_back

    def _tell(self, network: str, module: str | None, function: str, source: Source) -> None:
        if self._told < _MOST:
            self._told += 1
            self.watching.sink.event("cut", network, {"module": module, "function": function}, source)


def _named(frame: FrameType) -> Iterator[CodeType]:
    """Functions of the user's that the code of a frame names, which it may call."""
    for name in frame.f_code.co_names:
        function = frame.f_globals.get(name)
        if isinstance(function, FunctionType) and is_user_file(function.__code__.co_filename):
            yield function.__code__


def _own(kind: type) -> list[FunctionType]:
    """The `forward` of a class of modules, and the methods beside it, which it may call."""
    forward = inspect.getattr_static(kind, "forward", None)
    if not isinstance(forward, FunctionType):
        return []  # scripted modules have none of their own
    beside = [one for name, one in vars(kind).items() if isinstance(one, FunctionType) and not name.startswith("__")]
    return [forward, *(one for one in beside if one is not forward)]


def cut_lines(code: Any, cuts: tuple[tuple[str, re.Pattern[str]], ...] = _CUTS) -> Iterator[tuple[str, Source]]:
    """What a function's lines may cut the graph by; of a script, only the lines outside its functions and classes."""
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return
    first = max(first, 1)
    whole = code.co_name == "<module>"
    hidden = False
    for number, text in enumerate(lines):
        words = text.split("#", 1)[0].rstrip()
        if whole and words and not words[0].isspace():
            hidden = words.startswith(("def ", "class ", "@", "async "))
        if hidden or not words:
            continue
        for function, pattern in cuts:
            if pattern.search(words):
                yield function, source_of(code.co_filename, first + number, code.co_name)
                break
