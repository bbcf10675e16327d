"""Regular expressions that a stranger wrote: in a file, a question, a request."""

from __future__ import annotations

import re
import warnings

from tensight.errors import UsageError

_SHOWN = 80  # characters


def compiled(text: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern, or one sentence about what is wrong with it.

    >>> compiled("[a-c]+").findall("abcd")
    ['abc']
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of a style that Python may read otherwise one day
            return re.compile(text, flags)
    except RecursionError:
        why = "it is nested too deeply"
    except (re.error, OverflowError) as error:
        why = str(error)
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    raise UsageError(f"{shown!r} is no regular expression: {why}")
