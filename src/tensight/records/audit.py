"""What has changed a training from outside: who, when, at which step, what."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Who = Literal["page", "terminal", "mcp", "python", "tensight"]
WHO: tuple[Who, ...] = get_args(Who)


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was done to a training. `tensight` is who follows an option: `--guard`, `--on-finding stop`.

    >>> AuditEntry(12.5, 3, "page", "pause").words
    'pause'
    >>> AuditEntry(12.5, 3, "mcp", "watchpoint added", "TO on gradient:*").words
    'watchpoint added: TO on gradient:*'
    """

    time: float
    step: int
    who: Who
    did: str  # 'pause', 'watchpoint added', 'gradient changed by a hook'
    what: str = ""
    rank: int = 0

    @property
    def words(self) -> str:
        return f"{self.did}: {self.what}" if self.what else self.did
