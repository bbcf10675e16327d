"""Lack of memory, as it shows itself: Python, the frameworks and the system each say it in their own way."""

from __future__ import annotations

import errno
import re

_SAID = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|alloc\w* memory failed"
    r"|memory alloc\w* failed|unable to allocate",
    re.IGNORECASE,
)

OUT_OF_MEMORY = "out_of_memory"
"""The ErrorCode."""


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had.

    >>> is_lack_of_memory(MemoryError()), is_lack_of_memory(RuntimeError("Allocate memory failed"))
    (True, True)
    >>> is_lack_of_memory(RuntimeError("shapes do not fit"))
    False
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _SAID.search(str(error)) is not None
