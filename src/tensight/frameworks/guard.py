"""The line that no error of ours crosses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Report = Callable[[str, BaseException], None]


def guarded(where: str, report: Report, probe: Callable[P, R]) -> Callable[P, R | None]:
    """`probe`, which reports its errors instead of raising them and then answers None.

    Only `Exception` is held back: a KeyboardInterrupt is the user's and passes.

    >>> seen = []
    >>> probe = guarded("output hook", lambda where, error: seen.append(where), lambda: 1 / 0)
    >>> probe() is None, seen
    (True, ['output hook'])
    """

    @functools.wraps(probe)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return probe(*args, **kwargs)
        except Exception as error:
            report(where, error)
            return None

    return inner
