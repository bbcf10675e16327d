"""What a finding or a hit does when the user said so: stop, and run a command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from tensight import children
from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.records import Finding, RunEnd, StepRecord
from tensight.session.settings import Settings


class Reacting(Companion):
    """Stops the training on a finding or hit when asked to (`--on-finding stop`, `--on-hit stop`)."""

    def __init__(self, recorder: Recorder, settings: Settings) -> None:
        self._recorder = recorder
        self._settings = settings

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        new = [finding for finding in findings if finding.key not in self._settings.muted]
        wanted = self._settings.stop_for
        stopping = new if self._settings.on_finding == "stop" else [f for f in new if {f.category, f.fault} & wanted]
        if stopping:
            self._recorder.stop(f"finding: {stopping[0].title}")
        if self._settings.on_hit == "stop":
            own = [hit for hit in record.hits if not hit.recommended and hit.error is None]
            if own:
                place = f"{own[0].place}.{own[0].slot}".strip(".")
                self._recorder.stop(f"hit: {own[0].condition} on {own[0].kind} {place}")


class Notifying(Companion):
    """Runs the user's command on a finding, a stall and a crash (`--notify`): a JSON object is its standard input.

    The command is a line for the shell, so that `>> file` and pipes work. It is started and not waited for.
    """

    def __init__(self, command: str, folder: str) -> None:
        self._command = command
        self._folder = folder
        self._told: set[str] = set()
        self._started: list[subprocess.Popen[bytes]] = []

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        self._started = [one for one in self._started if one.poll() is None]
        for finding in findings:
            if finding.key not in self._told:
                self._told.add(finding.key)
                self.tell({"what": "finding", "step": finding.since_step, "title": finding.title, "why": finding.why})

    def ended(self, end: RunEnd) -> None:
        if end.ended == "failed":
            self.tell({"what": "crash", "step": end.steps, "title": f"the script failed with {end.script_exit}"})

    def tell(self, news: dict[str, object]) -> None:
        """Start the command with this news."""
        process = subprocess.Popen(self._command, shell=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        children.hide(process.pid)
        self._started.append(process)
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**news, "run": self._folder}).encode())
            process.stdin.close()
        except BrokenPipeError:
            pass  # a command that does not read is fine
