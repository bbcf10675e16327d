"""Which iterations and which kernels a dump is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tensight.records.patterns import compiled

_PIECE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_FOREVER = 1 << 62


class Iterations:
    """Iterations as MindSpore writes them: "0|5-8|100-120", "all", or a number.

    >>> chosen = Iterations.parse("0|5-8")
    >>> [number for number in range(10) if number in chosen]
    [0, 5, 6, 7, 8]
    """

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.ranges = tuple(ranges)

    @staticmethod
    def understands(value: Any) -> bool:
        """Whether a value of the JSON says which iterations are meant."""
        if isinstance(value, bool):
            return False
        if isinstance(value, int):
            return value >= 0
        if not isinstance(value, str):
            return False
        if value == "all":
            return True
        pieces = [_PIECE.fullmatch(piece) for piece in value.split("|")]
        return all(piece is not None and int(piece[2] or piece[1]) >= int(piece[1]) for piece in pieces)

    @classmethod
    def parse(cls, text: str) -> Iterations:
        if text == "all":
            return cls([(0, _FOREVER)])
        ends = (piece.partition("-") for piece in text.split("|"))
        return cls((int(first), int(last or first)) for first, _, last in ends)

    def __contains__(self, iteration: int) -> bool:
        return any(first <= iteration <= last for first, last in self.ranges)

    @property
    def text(self) -> str:
        """As the JSON has it."""
        if self.ranges == ((0, _FOREVER),):
            return "all"
        return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)


class Kernels:
    """Kernels by full name, by a part of their type, or by `name-regex(…)`.

    A name matches itself and everything below it as a scope.

    >>> chosen = Kernels.parse(["Default/fc1", "conv", "name-regex(Gradients/.+)"])
    >>> chosen.match("Default/fc1/MatMul-op0", "MatMul"), chosen.match("Default/x/Conv2D-op1", "Conv2D")
    (True, True)
    >>> chosen.match("Default/fc2/MatMul-op0", "MatMul")
    False
    """

    def __init__(self, patterns: Sequence[tuple[str, re.Pattern[str] | None]]) -> None:
        self._patterns = tuple(patterns)
        self.used: set[str] = set()

    @classmethod
    def parse(cls, words: Sequence[str]) -> Kernels:
        """May raise `UsageError`."""
        patterns: list[tuple[str, re.Pattern[str] | None]] = []
        for word in words:
            inner = re.fullmatch(r"name-regex\((.*)\)", word, re.DOTALL)
            patterns.append((word, compiled(inner[1]) if inner else None))
        return cls(patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self._patterns]

    @property
    def unused(self) -> list[str]:
        """Words that matched nothing so far."""
        return [word for word in self.words if word not in self.used]

    def match(self, name: str, type: str, *others: str) -> bool:
        """Whether a kernel is meant; `others` are other names it goes by, as a module's path."""
        found = False
        for word, pattern in self._patterns:
            if pattern is not None:
                hit = any(pattern.fullmatch(one) or pattern.search(one) for one in (name, *others))
            elif "/" in word:
                hit = name == word or name.startswith(word + "/")
            else:
                hit = word.lower() in type.lower() or word in others or any(o.startswith(word + ".") for o in others)
            if hit:
                self.used.add(word)
                found = True
        return found
