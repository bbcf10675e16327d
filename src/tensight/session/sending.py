"""Sends what a rank records to a server that does not see its disk: `python -m tensight.session.sending`.

A process of its own does it, so that a slow network costs the training nothing, and what is on disk is still sent when
the training is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tensight import children
from tensight.control.address import Address
from tensight.control.messages import Hello
from tensight.control.records import Offer, Records
from tensight.errors import ControlError, TensightError
from tensight.records import RunInfo
from tensight.store.mirror import Mirror

EVERY = 2.0  # seconds
_LIMIT = 120.0  # seconds that the end of a training waits for its last records
_TRIES = 5


class Order(msgspec.Struct, frozen=True):
    """What the process is to do; it comes by its standard input, since it holds the token."""

    address: Address
    key: str
    folder: str
    parts: tuple[str, ...]
    parent: int


class Sending:
    """Asks the server where the records go. Called by the thread of the link, never by the training's own."""

    def __init__(self, address: Address, folder: Path, info: RunInfo, say: Callable[[str], None]) -> None:
        self._address = address
        self._folder = folder
        self._info = info
        self._say = say
        self._hello: Hello | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()

    def hello(self) -> Hello:
        """What the link introduces this rank with: the run's folder as the server sees it."""
        if self._hello is None:
            own = Hello.of(self._info, self._folder)
            try:
                granted = self._ask(own)
            except ControlError:  # refused: the link hears why by itself; an older server takes no records
                granted = ""
            self._hello = msgspec.structs.replace(own, run_dir=granted) if granted else own
        return self._hello

    def _ask(self, own: Hello) -> str:
        mark = secrets.token_hex(16)
        left = self._folder / f".{mark}"
        self._folder.mkdir(parents=True, exist_ok=True)
        left.touch()
        try:
            name, rank, ranks = self._folder.resolve().name, own.rank, own.ranks
            offer = Offer(name, own.run_dir, mark, rank, ranks, group(os.environ) if ranks > 1 else "")
            granted = Records(self._address).offer(offer)
        finally:
            left.unlink(missing_ok=True)
        if granted.key:
            self._start(Order(self._address, granted.key, own.run_dir, (f"rank-{rank}",), self._pid))
            self._say(f"records are sent to {self._address.netloc}, which does not see this disk")
        return granted.folder

    def _start(self, order: Order) -> None:
        words = [sys.executable, "-m", "tensight.session.sending"]
        self._process = subprocess.Popen(
            words,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is meant for the training
            env={**os.environ, "TENSIGHT": "off"},
        )
        children.hide(self._process.pid)
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        atexit.register(self._end)

    def _end(self) -> None:
        """The training is over: wait until the last records are there."""
        process = self._process
        if process is None or os.getpid() != self._pid:
            return
        try:
            _, said = process.communicate(b"over\n", timeout=_LIMIT)
            trouble = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            trouble = f"sending to {self._address.netloc} took too long and was broken off"
        if trouble:
            self._say(f"{trouble}; the run is in {self._folder}")


def group(environ: Mapping[str, str]) -> str:
    """What all ranks of one launch have in common, on whichever machine they are.

    >>> group({"MASTER_ADDR": "head", "MASTER_PORT": "29500", "WORLD_SIZE": "16"})
    'head:29500//16'
    """
    said = {name: environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "WORLD_SIZE")}
    return "{MASTER_ADDR}:{MASTER_PORT}/{TORCHELASTIC_RUN_ID}/{WORLD_SIZE}".format(**said)


def main() -> int:
    """Send every few seconds, and once more when the training is over or gone."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    over = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.readline()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    mirror = Mirror(Path(order.folder), order.address.netloc, order.parts, (Records(order.address, order.key), ""))
    while True:
        # children of the script may hold the other end of the pipe open when the training was killed
        last = over.wait(EVERY) or os.getppid() != order.parent
        trouble = ""
        for _ in range(_TRIES if last else 1):
            try:
                mirror.copy()
                trouble = ""
                break
            except TensightError as error:
                trouble = str(error)
                if last:
                    time.sleep(EVERY)
        if last:
            if trouble:
                with contextlib.suppress(OSError):
                    print(trouble, file=sys.stderr)
            return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
