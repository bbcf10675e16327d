"""Control of the processes that a watched script starts itself: each is a rank of the same run, on the same page."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tensight.capture.companion import Companion
from tensight.control import address
from tensight.control.link import Link
from tensight.control.messages import Hello
from tensight.records import RunInfo
from tensight.session.controlling import Controlling, RecorderDesk
from tensight.session.settings import ranks

if TYPE_CHECKING:
    from tensight.session.session import Session


def controlling_child(session: Session) -> list[Companion]:
    """Connects when the process trains: only then is it known which rank it is.

    The server is the one whose address stands in the run's folder; without one there is nobody to connect to.
    """
    if address.find_beside(session.folder) is None:
        return []
    began = time.time()

    def hello() -> Hello | None:
        if not session.has_trained:
            return None
        rank = session.recorder.rank
        count = rank_count(session)
        info = RunInfo(session.folder.name, session.settings.command, began, rank=rank, ranks=count, pid=session.pid)
        return Hello.of(info, session.folder)

    link = Link(partial(address.find_beside, session.folder), hello).start()
    desk = RecorderDesk(session.recorder)
    leave = session.settings.on_leave
    return [Controlling(link, desk, session.recorder.stop, on_leave=leave, ranks=partial(rank_count, session))]


def rank_count(session: Session) -> int:
    """How many ranks the training has: as the framework knows it, or the launcher."""
    for adapter in session.recorder.adapters:
        found: tuple[int, int] | None = getattr(adapter, "position", lambda: None)()
        if found is not None:
            return found[1]
    return ranks()
