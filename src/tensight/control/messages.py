"""What goes over the wire between a training and a server: msgpack, so NaN and 64-bit integers arrive exactly."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from tensight.control.commands import Command
from tensight.control.machine import Machine
from tensight.records import RunInfo, Watchpoint
from tensight.records.audit import Who

WIRE = 2
"""Version of these messages; both ends must have the same."""

PATH = "/api/training"
TOKEN_HEADER = "X-Tensight-Token"
BY_HAND = "paused by hand"
WHO_HEADER = "X-Tensight-Who"
"""Who asks, where it is not a page: for the audit log alone, and believed."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first thing a training says."""

    wire: int
    run: str
    run_dir: str
    rank: int
    ranks: int
    pid: int
    started: float
    host: str
    device: str = ""

    @classmethod
    def of(cls, info: RunInfo, run_dir: Path, device: str = "") -> Hello:
        return cls(
            wire=WIRE,
            run=info.id,
            run_dir=str(run_dir.resolve()),
            rank=info.rank,
            ranks=info.ranks,
            pid=info.pid,
            started=info.started,
            host=socket.gethostname(),
            device=device,
        )


class Status(msgspec.Struct, frozen=True, tag="status"):
    """What the training does now. Also the heartbeat: it comes at least every few seconds."""

    machine: Machine
    watchpoints: tuple[Watchpoint, ...] | None = None  # only when they have changed
    pauses: bool = True  # whether it can be paused at all


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """What became of a request; `error` is '' when it was followed."""

    id: int
    error: str = ""


class Boundary(msgspec.Struct, frozen=True, tag="boundary"):
    """Where a rank is, asked by `Meet`: the last step it ended, and whether it will hold at the proposed one.

    `asleep` means that it cannot promise yet, since it does not hear of every step; it does from the next one on.
    """

    round: int
    step: int
    yes: bool
    asleep: bool = False


class Wish(msgspec.Struct, frozen=True, tag="wish"):
    """One of several ranks has, behind this step, a reason to pause: they can only do that together."""

    step: int
    reason: str


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The training is over; nothing follows."""

    ended: str


class Request(msgspec.Struct, frozen=True, tag="request"):
    """A command from a page, or from whoever speaks for one."""

    id: int
    command: Command
    who: Who = "page"


class Pages(msgspec.Struct, frozen=True, tag="pages"):
    """How many pages look at this run. Also the server's heartbeat."""

    count: int


class Meet(msgspec.Struct, frozen=True, tag="meet"):
    """Can you still hold behind this step? A new round takes the place of the one before."""

    round: int
    step: int


class Agreed(msgspec.Struct, frozen=True, tag="agreed"):
    """All ranks hold there; `reason` says why."""

    round: int
    reason: str


class Dissolved(msgspec.Struct, frozen=True, tag="dissolved"):
    """The ranks do not meet: go on."""

    round: int


FromTraining = Hello | Status | Answer | Boundary | Wish | Goodbye
ToTraining = Request | Pages | Meet | Agreed | Dissolved

encode = msgspec.msgpack.Encoder().encode
read_from_training = msgspec.msgpack.Decoder(FromTraining).decode
read_to_training = msgspec.msgpack.Decoder(ToTraining).decode
