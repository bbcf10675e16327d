"""Variables of the user's program that keep older graphs alive: a loss that is added up, a state that is carried on."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from tensight.frameworks.source import is_user_file, source_of

if TYPE_CHECKING:
    from tensight.records.timing import Calls

_MOST_NODES = 20_000
_MOST_FRAMES = 60
_MOST_VARIABLES = 400
_MOST_ITEMS = 2000


class Held:
    """Looks now and then how many autograd nodes hang on each variable; what grows each time is told."""

    def __init__(self) -> None:
        self._looks: list[dict[tuple[str, int, int, str], int]] = []

    def look(self) -> None:
        found: dict[tuple[str, int, int, str], int] = {}
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_MOST_FRAMES):
            if frame is None:
                break
            if is_user_file(frame.f_code.co_filename):
                self._in_frame(frame, found)
            frame = frame.f_back
        self._looks.append(found)

    def _in_frame(self, frame: FrameType, found: dict[tuple[str, int, int, str], int]) -> None:
        code = frame.f_code
        variables = frame.f_locals
        try:
            for name, value in list(variables.items())[:_MOST_VARIABLES]:
                nodes = _nodes(value)
                if nodes:
                    found[code.co_filename, code.co_firstlineno, _lines(code), name] = nodes
            owner = variables.get("self")
            for name, value in list(getattr(owner, "__dict__", {}).items())[:_MOST_VARIABLES]:
                nodes = _nodes(value)
                if nodes:
                    found[code.co_filename, code.co_firstlineno, _lines(code), f"self.{name}"] = nodes
        finally:
            # before 3.13 the snapshot of a function's variables stays with its frame and would keep tensors alive
            if sys.version_info < (3, 13) and code.co_flags & inspect.CO_OPTIMIZED:
                variables.clear()

    def growing(self) -> tuple[Calls, ...]:
        """Variables with more nodes at every look than at the one before."""
        if len(self._looks) < 3:
            return ()
        from tensight.records.timing import Calls

        found = []
        for key in self._looks[-1]:
            counts = [look.get(key, 0) for look in self._looks]
            if all(after > before for before, after in itertools.pairwise(counts)) and counts[0]:
                file, first, count, name = key
                line = _assigned(file, first, count, name)
                source = source_of(file, line) if line else None
                found.append(Calls(name, counts[-1], source=source, detail=" → ".join(str(n) for n in counts)))
        return tuple(sorted(found, key=lambda one: -one.calls))


def _nodes(value: Any) -> int:
    """Autograd nodes that a tensor, or a list or dict of tensors, keeps alive."""
    if isinstance(value, torch.Tensor):
        roots = [value]
    elif isinstance(value, (list, tuple)):
        roots = [one for one in value[-_MOST_ITEMS:] if isinstance(one, torch.Tensor)]
    elif isinstance(value, dict):
        roots = [one for one in list(value.values())[:_MOST_ITEMS] if isinstance(one, torch.Tensor)]
    else:
        return 0
    waiting = [one.grad_fn for one in roots if one.grad_fn is not None]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(following for following, _ in node.next_functions)
    return len(seen)


def _lines(code: Any) -> int:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return max(lines, default=code.co_firstlineno) - code.co_firstlineno + 1


def _assigned(file: str, first: int, count: int, name: str) -> int:
    """The line that makes a variable grow: where it is added to, or else where it is set last."""
    word = re.escape(name)
    grows = re.compile(rf"(?<![\w.]){word}\s*(\+=|\.append\(|\.extend\(|=(?!=).*(?<![\w.]){word}\b)")
    sets = re.compile(rf"(?<![\w.]){word}\b[^=!<>]*=(?!=)")
    ranked: list[tuple[int, int]] = []
    for line in range(first, first + count):
        text = linecache.getline(file, line)
        adds = bool(grows.search(text))
        if adds or sets.search(text):
            # a line with .item() may keep a graph in its other half, so it comes after those without
            keeps = not (".detach(" in text or ".item(" in text)
            ranked.append((2 * adds + keeps, -line if adds else line))
    return abs(max(ranked)[1]) if ranked else 0
