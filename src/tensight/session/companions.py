"""Who goes along with a session, as the settings ask for. One place, so that a new companion is one line.

Those that not every training has are imported when they are wanted: what is imported takes its memory.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tensight.capture.companion import Companion
from tensight.control.address import find_beside, from_environment
from tensight.records import Finding
from tensight.session.acting import Acting
from tensight.session.agreeing import Agreeing
from tensight.session.auditing import Auditing
from tensight.session.guard import Guarding
from tensight.session.launching import Launch, Launching
from tensight.session.output import Listening
from tensight.session.reacting import Notifying, Reacting
from tensight.session.session import Session
from tensight.session.settings import rank, ranks
from tensight.session.terminal import Terminal

if TYPE_CHECKING:
    from tensight.session.stalling import Stalling


def companions(session: Session) -> list[Companion]:
    settings = session.settings
    found: list[Companion] = []
    if settings.rewind:
        from tensight.session.rewind import Rewind

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
    if settings.on_finding == "stop" or settings.on_hit == "stop" or settings.stop_for:
        found.append(Reacting(session.recorder, settings))
    if settings.guard:
        found.append(Guarding(session.recorder))
    if settings.page or settings.server or from_environment():
        from tensight.session.controlling import controlling

        found.append(controlling(session, _say(session)))
        if isinstance(session.voice, Terminal):
            session.voice.page_of = partial(_page_of, session)
    found += _dumping(session, _say(session))
    if settings.notify:
        found.append(Notifying(settings.notify, str(session.folder)))
    found.append(Acting(session.recorder, _say(session)))
    found.append(Auditing(session.recorder))
    found.append(_listening(session))
    found.append(Launching(session.recorder, session.folder, _say(session), lambda: _launch(session)))
    found.append(Agreeing(session.recorder, session.folder))
    # a thread more: only where there is one already, somebody to hear of it, or ranks that may wait for each other
    if settings.page or settings.server or from_environment() or settings.notify or ranks() > 1:
        found.append(_stalling(session, found))
    return found


def child_companions(session: Session) -> list[Companion]:
    """Who goes along in a process that a watched script has started: it is a rank of the same run."""
    from tensight.session.controlling import Controlling
    from tensight.session.controlling_children import controlling_child

    found = controlling_child(session)
    found.append(Listening(session.recorder, session.folder, lambda: session.has_trained))
    found.append(Agreeing(session.recorder, session.folder))
    found += _dumping(session, lambda text: None, child=True)
    # a process that is no rank of several needs no thread more
    found.append(_stalling(session, found, late=not any(isinstance(one, Controlling) for one in found)))
    return found


def _listening(session: Session) -> Listening:
    """What the script prints is kept, and the status line goes out of its way."""
    voice = session.voice if isinstance(session.voice, Terminal) else None
    make_room = voice.make_room if voice is not None else lambda: None
    listening = Listening(session.recorder, session.folder, lambda: session.has_trained, make_room)
    if voice is not None:
        voice.in_a_line = lambda: listening.in_a_line
    return listening


def _dumping(session: Session, say: Callable[[str], None], *, child: bool = False) -> list[Companion]:
    if session.settings.dump is None:
        return []
    from tensight.session import dumping  # readers and writers of files that most trainings never need

    return dumping.companion(session, say, child=child)


def _stalling(session: Session, found: list[Companion], *, late: bool = False) -> Stalling:
    from tensight.session.controlling import Controlling
    from tensight.session.controlling_children import rank_count
    from tensight.session.stalling import Stalling

    return Stalling(
        session.recorder,
        session.folder,
        _say(session),
        rank=lambda: session.recorder.rank if session.has_trained else rank() if ranks() > 1 else None,
        ranks=lambda: rank_count(session),
        paused=lambda: any(isinstance(one, Controlling) and one.machine.state == "paused" for one in found),
        notify=next((one.tell for one in found if isinstance(one, Notifying)), lambda news: None),
        late=late,
    )


def _launch(session: Session) -> Launch:
    """What this process knows of how it was launched."""
    recorder = session.recorder
    place = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}".strip(":")
    backend: str = next((one.backend() for one in recorder.adapters if hasattr(one, "backend")), "")
    device = next((info.device for info in recorder.tensors.values() if info.kind == "weight"), "")
    return Launch(recorder.rank, ranks(), host=socket.gethostname(), address=place, backend=backend, device=device)


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
