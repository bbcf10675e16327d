"""Where the ranks of one training meet, so that all of them hold behind the same step.

A rank that held alone would leave the others waiting inside a collective until it times out. So the server proposes a
step, each rank's link thread says at once whether it can still hold there, and only when all have said yes is the
meeting on. Nothing of the user's own process group is used, and no rank has to be between two steps to answer.
"""

from __future__ import annotations

import threading

from tensight.control.messages import Agreed, Boundary, Dissolved, Meet

MeetingWord = Meet | Agreed | Dissolved


class Meeting:
    """One rank's part. `hear` is called by the link's thread, the rest by the training's; the lock is held for a few
    instructions and never while user code runs.

    >>> meeting = Meeting()
    >>> meeting.ended(4), meeting.listen(True)
    (False, None)
    >>> meeting.hear(Meet(1, step=6))
    Boundary(round=1, step=4, yes=True, asleep=False)
    >>> meeting.ended(5), meeting.ended(6)
    (False, True)
    >>> meeting.hear(Agreed(1, "paused by hand")), meeting.leave()
    (None, 'paused by hand')
    """

    def __init__(self) -> None:
        self.asked = False  # somebody proposes: from now on every step is to be heard
        self._lock = threading.Lock()
        self._step = -1  # the last step that ended
        self._listening = True  # whether the end of the step that runs now will be heard
        self._round = -1
        self._hold: int | None = None  # where to hold
        self._reason = ""  # set when all have agreed

    def hear(self, word: MeetingWord) -> Boundary | None:
        """What the server says; the answer, if it wants one."""
        with self._lock:
            if isinstance(word, Meet):
                self.asked = True
                self._round = word.round
                self._reason = ""
                yes = self._listening and self._step < word.step
                self._hold = word.step if yes else None
                return Boundary(word.round, self._step, yes, asleep=not self._listening)
            if word.round != self._round or self._hold is None:
                # agreed upon too late: this rank has given up waiting
                return Boundary(word.round, self._step, False) if isinstance(word, Agreed) else None
            if isinstance(word, Agreed):
                self._reason = word.reason
            else:
                self._hold = None
            return None

    def ended(self, step: int) -> bool:
        """A step has ended; True when the ranks are to meet here."""
        with self._lock:
            self._step = step
            return self._holds()

    def listen(self, surely: bool) -> None:
        """Whether the end of the next step will be heard, too, or may be slept through."""
        with self._lock:
            self._listening = surely

    @property
    def waiting(self) -> bool:
        """Whether this rank holds and does not know yet whether all do."""
        with self._lock:
            return self._holds() and not self._reason

    def leave(self) -> str:
        """Stop holding here; the reason for a pause if all have agreed, '' otherwise."""
        with self._lock:
            if not self._holds():
                return ""  # the ranks meet later, or not at all
            agreed, self._reason = self._reason, ""
            self._hold = None
            self.asked = False
            return agreed

    def forget(self) -> None:
        """This rank goes on after a pause that came before the meeting, as all others do."""
        with self._lock:
            self._hold = None
            self._reason = ""
            self.asked = False

    def _holds(self) -> bool:
        return self._hold is not None and self._step >= self._hold
