"""The line of the user's program that makes what the network is given: where a training waits, it waits there."""

from __future__ import annotations

from types import FrameType

from tensight.frameworks.source import is_user_file, user_frame
from tensight.frameworks.torch.lines import given_by
from tensight.frameworks.torch.watching import Watching

FIRST = 1  # step that is asked: the one before may be unlike all others
_MOST_CALLERS = 4


class Feeding:
    """Told once, of the first call that tells."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._told = False

    def called(self) -> None:
        """An outermost module is about to be called."""
        if self._told or not self.watching.deep or self.watching.sink.step < FIRST:
            return
        self._told = True
        frame: FrameType | None = user_frame()
        for _ in range(_MOST_CALLERS):  # a function that trains on one batch was given it by its caller
            if frame is None or not is_user_file(frame.f_code.co_filename):
                return
            source = given_by((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            if source is not None:
                self.watching.sink.event("fed_by", self.watching.network, {}, source)
                return
            frame = frame.f_back
