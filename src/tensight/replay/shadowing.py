"""A bad step looked at again where a framework keeps what its last step was given.

The copy of the process is made when the trouble is there and runs that one step, not the user's loop: so it needs no
loader, no worker threads and nothing of the steps before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tensight.frameworks.rewinds import Again, Shadow
from tensight.records import Replay
from tensight.replay import copying, isolation
from tensight.replay.copying import Copy, Woken, make_copy
from tensight.replay.in_copy import store_inputs
from tensight.replay.orders import ANSWER, Answer, bits, encode

STRATEGY = "shadow"
PATIENCE = 60.0
"""Seconds the training waits for the copy. A copy that does not answer is ended, and no other is made."""


LOOK = 15.0
"""Seconds it waits for a look at a step that is not known to be bad: that much is no look worth."""
STILL = 4.0
"""Seconds without any work after which a copy is taken to be stuck: a lock was held by a thread it does not have."""
TRIES = 3
"""Copies that are made for one answer, when they are stuck."""
ROOM = 4
"""A copy stays only where so many times the training's memory is free: what the training changes, it holds twice."""


class Follower:
    """A copy of the training that stays, to be asked again and again."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def ask(self, order: bytes) -> bytes | None:
        """Its answer: None when it takes too long, b'' when it is gone."""
        return self._copy.ask(order, LOOK, still=STILL)

    def end(self) -> None:
        self._copy.end()


class Shadowing:
    """Looks again at bad steps of one training, with the help of its adapter."""

    def __init__(self, shadow: Shadow, folder: Path, *, name: str, most: int = 8) -> None:
        self._shadow = shadow
        self._folder = folder
        self._name = name
        self._left = most
        self._silent = ""  # why no further copy is made
        self._give_back: Callable[[], None] = lambda: None  # in a copy: lets the run's folder be written

    def look_again(self, step: int, losses: Sequence[float]) -> Replay:
        """Run the step again in a copy and wait for what it has seen."""
        reason = self._silent or self._shadow.hindrance(step) or hindrance()
        if not reason and self._left <= 0:
            reason = "enough steps of this run were looked at again"
        if reason:
            return Replay(step=step, status="not possible", strategy=STRATEGY, reason=reason)
        self._left -= 1
        begun = time.monotonic()
        answer = self.in_copy(self._shadow, lambda: encode(Answer(self._again(step, losses))))
        found = ANSWER.decode(answer).replay if answer else None
        if found is None:
            late = answer is None
            self._silent = (
                f"a copy of the process did not answer within {PATIENCE:.0f} s"
                if late
                else "a copy of the process ended without an answer"
            )
            return Replay(step=step, status="not possible", strategy=STRATEGY, reason=self._silent)
        return msgspec.structs.replace(found, seconds=time.monotonic() - begun)

    def in_copy(self, shadow: Shadow, work: Callable[[], bytes]) -> bytes | None:
        """What `work` answers in a copy of this process; None when it takes too long, b'' when it fails."""
        if self._silent or hindrance():
            return b""
        begun = time.monotonic()
        for _ in range(TRIES):
            made = self._copied(shadow, lambda woken: woken.leave(work()))
            answer = made.wait(PATIENCE, still=STILL)
            made.end()
            if answer is not None or time.monotonic() - begun > PATIENCE:
                break
        return answer

    def follow(self, shadow: Shadow, work: Callable[[bytes], bytes]) -> Follower | None:
        """A copy of this process as it is now, that does `work` for each order; None where it must not stay."""
        available, resident = copying.memory()
        if self._silent or hindrance() or available < ROOM * resident:
            return None

        def serve(woken: Woken) -> None:
            while True:
                woken.say(work(woken.next()))

        return Follower(self._copied(shadow, serve, stays=True))

    def _copied(self, shadow: Shadow, work: Callable[[Woken], None], *, stays: bool = False) -> Copy:
        copy = False
        shadow.before_copy()
        try:
            made = make_copy(0, b"now", stays=stays)
            copy = isinstance(made, Woken)
        finally:
            shadow.after_copy(copy=copy)
        if isinstance(made, Woken):
            self._work(made, work)
            raise AssertionError("a copy has come back")
        return made

    def _work(self, woken: Woken, work: Callable[[Woken], None]) -> None:
        """Never returns: whatever happens, this process ends here."""
        try:
            self._give_back = isolation.no_changes_outside(str(self._folder))
            work(woken)
        finally:
            os._exit(1)

    def _again(self, step: int, losses: Sequence[float]) -> Replay:
        try:
            again = self._shadow.run_again(step)
            self._give_back()
            return self._told(again, step, losses)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            return Replay(step=step, status="not possible", strategy=STRATEGY, reason=reason)

    def _told(self, again: Again, step: int, losses: Sequence[float]) -> Replay:
        if again.seen is None:
            reason = again.trouble or "the bad values could not be traced to an operator"
            return Replay(step=step, status="not reproduced", strategy=STRATEGY, reason=reason)
        same = again.loss is not None and bits([again.loss]) == bits(list(losses)[-1:])
        if same and again.exact:
            reason = "the same loss, bit by bit"
        elif again.exact:
            reason = "the loss of the copy differs in its last bits"
        else:
            reason = "compiled code was run as the Python it was written in"
        return msgspec.structs.replace(
            again.seen.replay,
            status="exact" if same and again.exact else "close",
            strategy=STRATEGY,
            reason=reason,
            tensors=store_inputs(self._folder, self._name, again.seen),
        )


def hindrance() -> str:
    """Why no copy of this process can be made; '' when one can. Threads are no hindrance: the step needs none."""
    if not hasattr(os, "fork") or not os.path.isdir("/proc/self/fd"):
        return "a copy of the process needs Linux"
    available, resident = copying.memory()
    if available < resident // 2 + (64 << 20):
        return f"memory is short: {available >> 20} MB are free, the training holds {resident >> 20} MB"
    return ""
