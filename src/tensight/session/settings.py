"""What the user asked for."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tensight.capture.budget import CREDIT
from tensight.capture.deep import DeepSteps
from tensight.errors import UsageError
from tensight.records import Level, Watchpoint

if TYPE_CHECKING:
    from tensight.dump.settings import DumpSettings

Policy = Literal["pause", "stop", "continue"]
Reaction = Literal["pause", "stop", "continue", "auto"]  # auto: pause while a page is connected, otherwise continue

SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """Options of `tensight run` and `tensight.watch`, checked."""

    command: tuple[str, ...] = ()
    run_dir: Path | None = None
    name: str = "run"
    budget: float = 5.0
    free_seconds: float = CREDIT  # of watching, whatever their share
    level: Level = "watch"
    steps: DeepSteps = field(default_factory=DeepSteps)
    watchpoints: tuple[Watchpoint, ...] = ()
    recommended: bool = True
    on_finding: Reaction = "auto"
    on_hit: Reaction = "auto"
    on_leave: Policy = "continue"
    stop_for: frozenset[str] = frozenset()  # categories and faults that end the script, whatever `on_finding` says
    rewind: bool = True
    guard: bool = False
    max_steps: int | None = None
    memory_limit: int | None = None
    notify: str = ""
    resume: str = ""  # RUN or RUN@STEP
    page: bool = False
    host: str = "127.0.0.1"
    port: int | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    server: str = ""
    muted: frozenset[str] = frozenset()
    dump: DumpSettings | None = None

    def folder(self) -> Path:
        """Where the run goes: as given, or the first free `runs/<name>-<n>`; made here, so that it stays free."""
        try:
            return self._made()
        except OSError as error:
            place = self.run_dir or Path("runs").absolute()
            raise UsageError(
                f"the run cannot be recorded in {place}: {error.strerror or error}; give another --run-dir"
            ) from None

    def _made(self) -> Path:
        if self.run_dir is not None:
            if self.run_dir.exists() and not self.run_dir.is_dir():
                raise UsageError(f"--run-dir {self.run_dir}: is a file; name a folder")
            if self.run_dir.is_dir() and any(self.run_dir.glob(f"rank-{rank()}/*")):
                raise UsageError(f"--run-dir {self.run_dir}: holds a run already; name another folder or remove it")
            self.run_dir.mkdir(parents=True, exist_ok=True)
            return self.run_dir
        if ranks() > 1:
            return self._shared_folder()
        return self._free_folder()

    def _shared_folder(self) -> Path:
        """One folder for all ranks of a launch on this machine: the first makes it, the others read its name."""
        Path("runs").mkdir(exist_ok=True)
        note = Path("runs") / _note()
        try:
            handle = os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            for _ in range(200):
                name = note.read_text()
                if name.endswith("\n"):
                    return Path(name.strip())
                time.sleep(0.05)
            raise UsageError(f"{note}: another rank did not say where the run goes; give --run-dir") from None
        folder = self._free_folder()
        os.write(handle, f"{folder}\n".encode())
        os.close(handle)
        return folder

    def _free_folder(self) -> Path:
        for number in range(1, 1_000_000):
            folder = Path("runs") / f"{self.name}-{number}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return folder
        raise UsageError("runs/: no free name is left; remove old runs or give --run-dir")


def _note() -> str:
    return f".launch-{os.getppid()}-{os.environ.get('MASTER_PORT', '')}"


def forget_launch(folder: Path) -> None:
    """Take away the note that told the ranks of a launch where their run goes, once every rank is there."""
    note = folder.parent / _note()
    with contextlib.suppress(OSError):
        if all((folder / f"rank-{number}").exists() for number in range(ranks())):
            note.unlink(missing_ok=True)


def rank() -> int:
    """This process among those of one training, as launchers tell it."""
    for name in ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        value = os.environ.get(name, "")
        if value.isdigit() and (name != "SLURM_PROCID" or "WORLD_SIZE" in os.environ):
            return int(value)
    return 0


def ranks() -> int:
    for name in ("WORLD_SIZE", "RANK_SIZE", "OMPI_COMM_WORLD_SIZE"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return max(1, int(value))
    return 1


def size(text: str) -> int:
    """Bytes of a size as people write it.

    >>> size("2G"), size("512 MB")
    (2147483648, 536870912)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if not match:
        raise UsageError(f"{text!r} is not a size; write e.g. 512M or 2G")
    return int(float(match[1]) * SIZES[match[2]])
