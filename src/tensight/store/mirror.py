"""Copies a run to where it shall live while it is written: `python -m tensight.store.mirror FOLDER ADDRESS [PART…]`.

A process of its own, so that a slow network costs the training nothing, and what is on disk is still copied when the
training is killed. It goes on until it is told a word on its standard input or that ends, copies once more, and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tensight import children
from tensight.errors import RunError, TensightError
from tensight.store.remote import file_system, is_of_a_run, spoken_of

EVERY = 10.0  # seconds
_LIMIT = 600.0  # seconds for the last copy
STAYS = frozenset(("server.json", "server.log"))
"""Of this machine's server, in the folder of a run: its token lets whoever reads it command the training."""


class Mirror:
    """A copy elsewhere, of a whole run or of some of its parts ('rank-0').

    `system` is a file system and a folder in it; without one, `address` says which is meant.
    """

    def __init__(
        self, folder: Path, address: str, parts: Iterable[str] = (), system: tuple[Any, str] | None = None
    ) -> None:
        self.folder = folder
        self.address = address.rstrip("/")
        self._parts = frozenset(parts)
        self._copied: dict[str, tuple[int, int]] = {}
        with spoken_of(self.address):
            self._system, self._root = file_system(self.address) if system is None else system

    def check(self) -> None:
        """Refuse a place that holds a run already, or cannot be written."""
        with spoken_of(self.address):
            self._system.makedirs(self._root, exist_ok=True)
            for name in self._system.find(self._root):
                relative = str(name)[len(self._root) + 1 :]
                if is_of_a_run(relative) and (not self._parts or relative.split("/")[0] in self._parts):
                    raise RunError(f"{self.address} holds a run already: name another place or remove it")

    def copy(self) -> int:
        """Copy what is new or has changed; returns how many files that were."""
        count = 0
        with spoken_of(self.address):
            for path in sorted(self.folder.rglob("*")):
                relative = path.relative_to(self.folder).as_posix()
                if path.name.endswith(".new") or path.name in STAYS:
                    continue
                if self._parts and relative.split("/")[0] not in self._parts:
                    continue
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue  # dropped by retention
                version = (found.st_size, found.st_mtime_ns)
                if not path.is_file() or self._copied.get(relative) == version:
                    continue
                target = f"{self._root}/{relative}"
                self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
                self._system.put_file(str(path), target)
                self._copied[relative] = version
                count += 1
            self._drop()
        return count

    def _drop(self) -> None:
        for relative in [known for known in self._copied if not (self.folder / known).exists()]:
            if self._system.exists(f"{self._root}/{relative}"):
                self._system.rm_file(f"{self._root}/{relative}")
            del self._copied[relative]


class Mirroring:
    """Has a process copy a run for as long as the block lasts, and waits for its last copy."""

    def __init__(self, folder: Path, address: str, parts: Sequence[str] = ()) -> None:
        Mirror(folder, address, parts).check()  # what cannot work is said before the training begins
        self.address = address
        words = [sys.executable, "-m", "tensight.store.mirror", str(folder.absolute()), address, *parts]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        children.hide(self._process.pid)
        self._pid = os.getpid()
        self.trouble = ""

    def __enter__(self) -> Mirroring:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return  # a child that the script forked
        try:
            # a word, since children of the script may hold the other end of the pipe open
            _, said = self._process.communicate(b"over\n", timeout=_LIMIT)
            if self._process.returncode:
                self.trouble = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            self.trouble = f"copying to {self.address} took too long and was broken off"


def main(words: Sequence[str]) -> int:
    """Copy every few seconds, and once more when the training is over."""
    folder, address, *parts = words
    over = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.readline()  # a line, or the end when the training is gone
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    mirror: Mirror | None = None
    while True:
        last = over.wait(EVERY)
        for attempt in range(5 if last else 1):
            try:
                mirror = mirror or Mirror(Path(folder), address, parts)
                mirror.copy()
                break
            except TensightError as error:
                trouble = str(error)
                time.sleep(2.0**attempt if last else 0.0)
        else:
            if last:
                print(trouble, file=sys.stderr)
                return 1
        if last:
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
