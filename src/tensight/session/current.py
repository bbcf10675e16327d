"""The session of this process, for those who are called by the user's code and not by the session."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensight.session.session import Session

_sessions: list[Session] = []
_leaving: list[Callable[[Session], None]] = []


def current() -> Session | None:
    """The session that watches this process, if one does; a forked child has none."""
    for session in reversed(_sessions):
        if session.pid == os.getpid():
            return session
    return None


def enter(session: Session) -> None:
    _sessions.append(session)


def leave(session: Session) -> None:
    """The session ends: what hangs on it is closed. An error there is no reason not to end it."""
    if session in _sessions:
        _sessions.remove(session)
        for call in _leaving:
            try:
                call(session)
            except Exception as error:
                session.voice.failed("ending", error, again=False)


def on_leave(call: Callable[[Session], None]) -> None:
    """Have `call` told of every session that ends."""
    if call not in _leaving:
        _leaving.append(call)
