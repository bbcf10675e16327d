"""The same commands at the terminal while a training is paused."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

from tensight.control.commands import Command, Continue, NextNode, RunToNode, Step, Terminate
from tensight.errors import UsageError

HELP = "c continue · s [N] run N steps · i next node · to NODE run to a node · q terminate · ? help"


def parse(line: str) -> Command | None:
    """The command meant by a line; None when it only asks for help.

    >>> parse("s 5")
    Step(count=5)
    >>> parse("to encoder.0")
    RunToNode(node='encoder.0')
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if word in ("c", "continue") and not rest:
        return Continue()
    if word in ("s", "step") and (not rest or rest.isdecimal()) and rest != "0":
        return Step(int(rest or 1))
    if word in ("i", "next") and not rest:
        return NextNode()
    if word == "to" and rest:
        return RunToNode(rest)
    if word in ("q", "quit", "terminate") and not rest:
        return Terminate()
    if word in ("", "?", "h", "help"):
        return None
    raise UsageError(f"{line.strip()!r} is no command here: {HELP}.")


class Terminal:
    """The user's terminal, read without ever waiting for it."""

    def __init__(self, say: Callable[[str], None], descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._say = say
        self._closed = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What to wait for: nothing once the terminal is gone, or while somebody else has it."""
        return (self._descriptor,) if not self._closed and self._is_ours() else ()

    def _is_ours(self) -> bool:
        """Whether we are in the foreground: a job in the background that reads the terminal is stopped for it."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return False

    def ask(self) -> None:
        self._say(HELP)

    def command(self) -> Command | None:
        """What was typed, if a whole line was. The end of input lets the training go on."""
        if not self.descriptors or not select.select([self._descriptor], [], [], 0)[0]:
            return None
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data:
            self._closed = True
            return Continue()
        try:
            command = parse(data.decode(errors="replace").splitlines()[0])
        except UsageError as error:
            self._say(str(error))
            return None
        if command is None:
            self.ask()
        return command
