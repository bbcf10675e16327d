"""Writes down everything that changes the running training, beside its run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensight.capture.companion import Companion
from tensight.control import commands
from tensight.records import Finding, StepRecord, Watchpoint
from tensight.records.audit import AuditEntry, Who
from tensight.session import current, prints

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

MOST = 1000  # characters of what is said of one thing


def note(who: Who, did: str, what: str = "") -> None:
    """Note what was done to the training of this process; without a session nothing is."""
    session = current.current()
    if session is None:
        return
    step, rank = (session.recorder.step, session.recorder.rank) if session.has_trained else (0, 0)
    prints.keep(AuditEntry(time.time(), step, who, did, what[:MOST], rank))


def note_command(who: Who, command: commands.Command) -> None:
    """Note a command that was followed."""
    note(who, *in_words(command))


def in_words(command: commands.Command) -> tuple[str, str]:
    """What a command does, and to what.

    >>> in_words(commands.Step(3))
    ('step', '3 steps')
    >>> in_words(commands.RemoveWatchpoint(7))
    ('watchpoint removed', 'number 7')
    """
    match command:
        case commands.Continue():
            return "continue", ""
        case commands.Pause():
            return "pause", "" if command.after < 0 else f"after step {command.after}"
        case commands.Step():
            return "step", f"{command.count} step{'' if command.count == 1 else 's'}"
        case commands.NextNode():
            return "run to the next node", ""
        case commands.RunToNode():
            return "run to a node", command.node
        case commands.Terminate():
            return "terminate", ""
        case commands.AddWatchpoint():
            return "watchpoint added", _spec(command.watchpoint)
        case commands.ChangeWatchpoint():
            state = "" if command.watchpoint.enabled else ", switched off"
            return "watchpoint changed", f"number {command.watchpoint.id}: {_spec(command.watchpoint)}{state}"
        case commands.RemoveWatchpoint():
            return "watchpoint removed", f"number {command.id}"
        case commands.Mute():
            return "finding muted" if command.muted else "finding no longer muted", command.key


def _spec(point: Watchpoint) -> str:
    from tensight.watchpoints import spec  # a training that nobody commands writes none

    return spec.to_text(point)


class Auditing(Companion):
    """Notes that the training is stopped before its own end: by `--guard`, a finding, a hit, or a command."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._noted = ""

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        reason = self._recorder.stopping
        if reason and reason != self._noted:
            self._noted = reason
            note("tensight", "stop", reason)
