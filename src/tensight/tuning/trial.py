"""One trial: the command with its values, as a process of its own under `tensight run`."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tensight.errors import TensightError
from tensight.records import Finding
from tensight.records.patterns import compiled
from tensight.runs import Run, open_run
from tensight.store import is_run
from tensight.tuning.config import Config
from tensight.tuning.lineage import metric
from tensight.tuning.values import REPORTS, VALUES

REPORT_FILE = "reports.jsonl"
OUTPUT_FILE = "output.log"
LAST = 10  # losses that make up the result
EVERY = 10  # steps between two losses that are compared with other trials
GRACE = 10.0
_PYTHON = re.compile(r"(.*[/\\])?python(3(\.\d+)?)?(\.exe)?")
_SITE = Path(__file__).parent / "site"


def fill(command: str, values: dict[str, Any]) -> str:
    """The command line with values in place of `{name}`; other braces stay.

    >>> fill("python train.py --lr {lr} --note {x}", {"lr": 0.1})
    'python train.py --lr 0.1 --note {x}'
    """
    for name, value in values.items():
        command = command.replace("{" + name + "}", shlex.quote(str(value)))
    return command


def words_of(
    command: str, folder: Path, *, watch: bool = True, prune_findings: Sequence[str] = ()
) -> tuple[list[str], bool]:
    """The command as words, a Python script under `tensight run`; whether it is watched. `python` is this one.

    A trial is one of many: it is held to the budget from the start, and it ends by itself with a finding that would
    have it pruned.

    >>> words_of("python train.py --lr 1", Path("t"), prune_findings=["nan"])[0][1:8]
    ['-m', 'tensight', 'run', '--no-page', '--no-rewind', '--free-seconds', '0']
    >>> words_of("python train.py --lr 1", Path("t"), prune_findings=["nan"])[0][8:]
    ['--stop-for', 'nan', '--run-dir', 't', 'train.py', '--lr', '1']
    """
    words = shlex.split(command)
    if not words or not _PYTHON.fullmatch(words[0]):
        return words, False
    if os.sep not in words[0]:
        words[0] = sys.executable
    if not watch:
        return words, False
    rest = words[1:]
    flags = []
    while rest and rest[0] in ("-u", "-O", "-OO", "-B", "-I", "-s", "-E"):
        flags.append(rest.pop(0))
    if not rest or (rest[0].startswith("-") and rest[0] != "-m"):
        return words, False
    run = ["-m", "tensight", "run", "--no-page", "--no-rewind", "--free-seconds", "0"]
    for name in prune_findings:
        run += ["--stop-for", name]
    return [words[0], *flags, *run, "--run-dir", str(folder), *rest], True


class TrialProcess:
    """A trial that runs. Everything it writes is in its folder, which is its run directory too."""

    def __init__(self, config: Config, number: int, values: dict[str, Any], place: Path, *, watch: bool = True) -> None:
        self.config = config
        self.number = number
        self.values = values
        self.folder = place / f"trial-{number}"
        base = config.summary_base_dir
        self.summary = Path(base) / f"train_{number}" if base else self.folder / "summary"
        self.command = fill(config.command, values)
        self.started = time.time()
        self.watched = False
        self._began = time.monotonic()
        self._watch = watch
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._run: Run | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        words, self.watched = words_of(
            self.command, self.folder, watch=self._watch, prune_findings=self.config.prune_findings
        )
        environment = {**os.environ, **self.config.environment}
        environment[VALUES] = json.dumps({"params": self.values, "summary_dir": str(self.summary)})
        environment[REPORTS] = str(self.folder / REPORT_FILE)
        environment["PYTHONUNBUFFERED"] = "1"
        if importlib.util.find_spec("mindinsight") is None:
            path = environment.get("PYTHONPATH", "")
            environment["PYTHONPATH"] = str(_SITE) + (os.pathsep + path if path else "")
        self._output = (self.folder / OUTPUT_FILE).open("wb")
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def overdue(self) -> bool:
        return self.seconds > self.config.timeout

    def stop(self) -> None:
        """End the trial and everything it has started: first asked, then made to."""
        process = self._process
        if process is not None and process.poll() is None:
            for word in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, word)
                try:
                    process.wait(GRACE)
                    break
                except subprocess.TimeoutExpired:
                    continue
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.wait()
        if self._output is not None:
            self._output.close()
            self._output = None
        self._run = None

    # what it says

    @property
    def stopped(self) -> bool:
        """Whether it has ended itself because of a finding."""
        run = self._opened()
        return run is not None and run.ended == "stopped"

    def findings(self) -> list[Finding]:
        """Findings of its run that mean that nothing good will come of it."""
        run = self._opened()
        if run is None:
            return []
        wanted = self.config.prune_findings
        return [one for one in run.findings if one.category in wanted or one.fault in wanted]

    def reports(self) -> list[tuple[int, float]]:
        """How it did so far: what it has reported, or its losses."""
        told = self._reported()
        if told:
            return told
        if self.config.target != "loss":
            return []
        losses = self._losses()
        return [
            (losses[index - 1][0], _mean([loss for _, loss in losses[max(0, index - LAST) : index]]))
            for index in range(EVERY, len(losses) + 1, EVERY)
        ]

    def value(self) -> float | None:
        """The result: what was reported last, what summaries or the output say, or the mean of the last losses."""
        told = self._reported()
        if told:
            return told[-1][1]
        kept = metric(self.summary, self.config.target) if self.config.target != "loss" else None
        if kept is not None and not self.config.pattern:
            return kept
        printed = self._printed()
        if printed is not None and (self.config.target != "loss" or self.config.pattern):
            return printed
        if self.config.target == "loss":
            losses = self._losses()
            if losses:
                return _mean([loss for _, loss in losses[-LAST:]])
            return printed
        return None

    def tail(self) -> str:
        """The end of its output, in one line."""
        try:
            with (self.folder / OUTPUT_FILE).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4000))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-400:]

    def _opened(self) -> Run | None:
        if not self.watched:
            return None
        try:
            if self._run is None:
                if not is_run(self.folder):
                    return None
                self._run = open_run(self.folder)
            else:
                self._run.refresh()
            return self._run
        except (TensightError, OSError):
            return None

    def _losses(self) -> list[tuple[int, float]]:
        run = self._opened()
        if run is None:
            return []
        found = []
        for number in run.steps.numbers:
            try:
                loss = run.steps.head(number).loss
            except TensightError:
                continue
            if loss is not None:
                found.append((number, loss))
        return found

    def _reported(self) -> list[tuple[int, float]]:
        found = []
        try:
            with (self.folder / REPORT_FILE).open(encoding="utf-8") as file:
                for index, line in enumerate(file):
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        row = json.loads(line)
                        if row.get("name") in ("", None, self.config.target):
                            step = row["step"] if isinstance(row.get("step"), int) else index
                            found.append((step, float(row["value"])))
        except OSError:
            return []
        return found

    def _printed(self) -> float | None:
        """The last number that stands behind the target's name in the output."""
        name = re.escape(self.config.target)
        pattern = (
            self.config.pattern or rf"['\"]?\b{name}['\"]?\s*(?:[:=]|is)\s*\[?([-+]?[0-9.]+(?:[eE][-+]?\d+)?|nan|inf)"
        )
        found = None
        try:
            with (self.folder / OUTPUT_FILE).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - (1 << 20)))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return None
        for match in compiled(pattern, re.IGNORECASE).finditer(text):
            with contextlib.suppress(ValueError, IndexError, TypeError):  # the group may be absent, or not have matched
                found = float(match[1])
        return found


def _mean(values: list[float]) -> float:
    """
    >>> _mean([1.0, 3.0]), _mean([1.0, float("nan")])
    (2.0, inf)
    """
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else math.inf
