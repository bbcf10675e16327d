"""What a hit does when its own watchpoint says so: keep the tensors of the next step, or break into pdb."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tensight.capture.companion import Companion
from tensight.records import Finding, StepRecord
from tensight.runs.blocks import plain
from tensight.session import debugger

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

MOST_DUMPS = 20
"""Steps whose tensors are kept because of hits: a condition that always holds must not fill the disk."""


class Acting(Companion):
    """Follows `action=dump` and `action=pdb`; `pause` and `log` are for whoever controls the training."""

    def __init__(self, recorder: Recorder, say: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._say = say
        self._dumps = 0
        self._pid = os.getpid()

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if not record.hits or os.getpid() != self._pid:
            return
        actions = {point.id: point.action for point in self._recorder.checker.watchpoints}
        for hit in record.hits:
            action = actions.get(hit.watchpoint, "") if hit.error is None else ""
            what = plain(f"{hit.name or hit.condition} hit on {hit.node or 'the network'} {hit.slot}".strip())
            if action == "dump" and self._dumps < MOST_DUMPS and not self._recorder.is_deep(record.step + 1):
                self._dumps += 1
                self._recorder.deepen(record.step + 1)
                self._say(f"step {record.step}: {what}; the tensors of step {record.step + 1} are kept")
            elif action == "pdb":
                self._break(record.step, what)
                return

    def _break(self, step: int, what: str) -> None:
        if not debugger.can_enter():
            self._say(f"step {step}: {what}; its watchpoint asks for pdb, which needs a terminal")
            return
        self._say(f"step {step}: {what}; breaking into pdb")
        debugger.enter()
