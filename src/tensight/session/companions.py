"""Who goes along with a session, as the settings ask for. One place, so that a new companion is one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tensight.capture.companion import Companion
from tensight.control.address import find_beside, from_environment
from tensight.records import Finding
from tensight.session.controlling import controlling
from tensight.session.guard import Guarding
from tensight.session.reacting import Notifying, Reacting
from tensight.session.rewind import Rewind
from tensight.session.session import Session
from tensight.session.terminal import Terminal


def companions(session: Session) -> list[Companion]:
    settings = session.settings
    found: list[Companion] = []
    if settings.rewind:
        if isinstance(session.voice, Terminal):
            session.voice.rewinds = True
        found.append(
            Rewind(
                session.recorder,
                session.folder,
                budget=settings.budget,
                memory_limit=settings.memory_limit,
                stopping=settings.guard or settings.on_finding == "stop",
                say=_say(session),
                show_memory=_show_memory(session),
            )
        )
    if settings.on_finding == "stop" or settings.on_hit == "stop":
        found.append(Reacting(session.recorder, settings))
    if settings.guard:
        found.append(Guarding(session.recorder))
    if settings.page or settings.server or from_environment():
        found.append(controlling(session, _say(session)))
        if isinstance(session.voice, Terminal):
            session.voice.page_of = partial(_page_of, session)
    if settings.notify:
        found.append(Notifying(settings.notify, str(session.folder)))
    return found


def _say(session: Session) -> Callable[[str], None]:
    """A line on the terminal, where there is one."""
    line: Callable[[str], None] = getattr(session.voice, "line", lambda text: None)
    return line


def _show_memory(session: Session) -> Callable[[int], None]:
    """Bytes held for rewind, in the status line."""
    voice = session.voice

    def show(size: int) -> None:
        if isinstance(voice, Terminal):
            voice.memory = size

    return show


def _page_of(session: Session, finding: Finding) -> str:
    """Where the page shows a finding, while there is one."""
    address = find_beside(session.folder)
    return "" if address is None else address.at(session.folder.name, finding.since_step, finding.where.module)
