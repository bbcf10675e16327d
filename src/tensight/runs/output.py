"""What a script has printed, beside its run: lines of JSON, the newest megabytes of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tensight.errors import UNDECODABLE
from tensight.store import layout

MOST_BYTES = 1 << 20  # of a file; there are two, the older one is dropped when the newer is full
NAMES = ("output.old.jsonl", "output.jsonl")


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A line, the step it was printed in, and where to: 'stdout', 'stderr', or '' for a word of Tensight's own."""

    step: int
    time: float
    stream: str
    text: str


_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Line).decode


def append(folder: Path, rank: int, lines: Sequence[Line]) -> None:
    """Add lines to those of a rank."""
    part = layout.part(folder, rank)
    old, new = (part / name for name in NAMES)
    with contextlib.suppress(FileNotFoundError):
        if new.stat().st_size >= MOST_BYTES:
            os.replace(new, old)
    part.mkdir(parents=True, exist_ok=True)
    with open(new, "ab") as file:
        file.write(b"".join(_encode(line) + b"\n" for line in lines))


def _encode(line: Line) -> bytes:
    try:
        return _encoder.encode(line)
    except UnicodeEncodeError:  # half of a pair of surrogates
        return _encoder.encode(Line(line.step, line.time, line.stream, line.text.encode(errors="replace").decode()))


def read(folder: Path, rank: int, most: int = 2000) -> list[Line]:
    """The last lines of a rank, in order; a line that was cut off by a crash is left out."""
    lines: list[Line] = []
    for name in NAMES:
        with contextlib.suppress(FileNotFoundError):
            for data in (layout.part(folder, rank) / name).read_bytes().splitlines():
                with contextlib.suppress(*UNDECODABLE):
                    lines.append(_decode(data))
    return lines[-most:]
