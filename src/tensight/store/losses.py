"""What could not be recorded, in few words however often it happens."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 50  # different troubles that are told apart


class Losses:
    """Counts losses by what was lost and why.

    >>> losses = Losses()
    >>> for step in (3, 4, 5):
    ...     losses.note("step", step, OSError(28, "No space left on device"))
    >>> losses.words()
    ['3 steps (3 to 5) could not be written: [Errno 28] No space left on device']
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = {}

    def note(self, what: str, step: int | None, error: BaseException) -> None:
        """One more thing was lost."""
        reason = str(error) or type(error).__name__
        key = (what, reason)
        if key not in self._seen:
            if len(self._seen) >= _MOST:
                key = (what, "other troubles")
            self._seen.setdefault(key, [0, -1, -1])
        entry = self._seen[key]
        entry[0] += 1
        if step is not None:
            entry[1] = step if entry[1] < 0 else entry[1]
            entry[2] = step

    def words(self) -> Sequence[str]:
        """One sentence for each kind of loss."""
        return [_words(what, reason, *counts) for (what, reason), counts in self._seen.items()]


def _words(what: str, reason: str, count: int, first: int, last: int) -> str:
    subject = f"{what} {first}" if count == 1 and first >= 0 else what if count == 1 else f"{count} {what}s"
    between = f" ({first} to {last})" if count > 1 and first >= 0 else ""
    return f"{subject}{between} could not be written: {reason}"
