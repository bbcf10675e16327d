"""The block beside a traceback: what the crash shows, and why."""

from __future__ import annotations

from typing import Any

from tensight.diagnosis import crashes
from tensight.frameworks import crash


def crash_of(error: BaseException) -> dict[str, Any]:
    """A crash explained. Whatever goes wrong here, the plain message is kept."""
    try:
        return crashes.explain(crash.describe(error))
    except Exception as trouble:
        title = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
        return {"title": title, "lost": f"explaining the crash failed: {type(trouble).__name__}: {trouble}"}
