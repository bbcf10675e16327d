"""Sets hooks of the user's on the networks of a running session, those that are found later too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tensight.capture.companion import Companion
from tensight.records import Part
from tensight.session import current
from tensight.session.session import Session

SetOn = Callable[[Any], int]


class Hooking(Companion):
    """Goes along with a session and offers each network to those who want to set hooks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.wanted: list[tuple[SetOn, str]] = []
        self.places: Counter[str] = Counter()

    def step_began(self, step: int) -> None:
        for set_on, text in self.wanted:
            self.offer(set_on, text)

    def offer(self, set_on: SetOn, text: str) -> None:
        recorder = self._session.recorder
        for adapter in recorder.adapters:
            roots = getattr(adapter, "roots", None)
            count = sum(set_on(root) for root in (roots() if roots is not None else ()))
            if count:
                self.places[text] += count
                self.tell(text, removed=False)

    def tell(self, text: str, removed: bool) -> None:
        """A part of kind 'hook' is what the page shows of it; the last one of a name counts."""
        try:
            part = Part("hook", text, "hook", {"places": self.places[text], "removed": removed})
            self._session.recorder.writer.part(part)
        except Exception as error:  # the hook itself is set, or off
            self._session.voice.failed("hook", error, again=False)


def on_networks(set_on: SetOn, text: str) -> bool:
    """Offer the networks of the session; False when there is no session."""
    session = current.current()
    if session is None:
        return False
    companion = _companion(session)
    companion.wanted.append((set_on, text))
    companion.offer(set_on, text)
    return True


def forget(set_on: SetOn) -> None:
    """Offer nothing more."""
    session = current.current()
    if session is not None:
        companion = _companion(session)
        gone = [text for known, text in companion.wanted if known == set_on]
        companion.wanted = [one for one in companion.wanted if one[0] != set_on]
        for text in gone:
            companion.tell(text, removed=True)


def _companion(session: Session) -> Hooking:
    for known in session.recorder.companions:
        if isinstance(known, Hooking):
            return known
    made = Hooking(session)
    session.recorder.companions.append(made)
    return made
