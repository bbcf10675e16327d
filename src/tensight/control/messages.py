"""What goes over the wire between a training and a server: msgpack, so NaN and 64-bit integers arrive exactly."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from tensight.control.commands import Command
from tensight.control.machine import Machine
from tensight.records import RunInfo, Watchpoint

WIRE = 1
"""Version of these messages; both ends must have the same."""

PATH = "/api/training"
TOKEN_HEADER = "X-Tensight-Token"


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


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The training is over; nothing follows."""

    ended: str


class Request(msgspec.Struct, frozen=True, tag="request"):
    """A command from a page."""

    id: int
    command: Command


class Pages(msgspec.Struct, frozen=True, tag="pages"):
    """How many pages look at this run. Also the server's heartbeat."""

    count: int


FromTraining = Hello | Status | Answer | Goodbye
ToTraining = Request | Pages

encode = msgspec.msgpack.Encoder().encode
read_from_training = msgspec.msgpack.Decoder(FromTraining).decode
read_to_training = msgspec.msgpack.Decoder(ToTraining).decode
