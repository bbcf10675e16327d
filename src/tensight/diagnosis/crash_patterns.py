"""Explanations of crashes by pattern of the message; each framework adds its own in a module of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tensight.frameworks.crash import Crash


@dataclass(frozen=True)
class Explanation:
    """Why, and what to do."""

    title: str
    why: str
    fix: tuple[str, ...]


Explain = Callable[[Crash, re.Match[str]], Explanation]


class Patterns(list[tuple[re.Pattern[str], Explain]]):
    """Explanations in order: the first whose pattern fits the message wins.

    >>> patterns = Patterns()
    >>> @patterns.when("out of (.+)")
    ... def explain(crash, match):
    ...     return Explanation(f"there is no {match[1]} left", "", ())
    >>> len(patterns)
    1
    """

    def when(self, pattern: str) -> Callable[[Explain], Explain]:
        def add(function: Explain) -> Explain:
            self.append((re.compile(pattern, re.S), function))
            return function

        return add
