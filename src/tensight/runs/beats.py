"""Where each rank of a training is: a small file that every rank renews, so that any of them can be asked for after it
has stalled, or was killed."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tensight.errors import UNDECODABLE, FormatError
from tensight.store import layout
from tensight.store.process import alive

BEAT = "beat.json"
EVERY = 2.0  # seconds between two beats
SILENT = 15.0  # seconds without a beat after which a rank on another machine counts as gone


class Frame(msgspec.Struct, frozen=True):
    """One call on a stack, the innermost last."""

    file: str
    line: int
    function: str
    code: str = ""


class Beat(msgspec.Struct, frozen=True):
    """What a rank said last: the step it is in, since when, and where this takes long, what it does."""

    rank: int
    ranks: int
    pid: int
    host: str
    time: float
    step: int
    since: float  # when the step before has ended
    paused: bool = False
    ended: bool = False
    operation: str = ""  # what it waits in: 'torch.distributed.all_reduce'
    place: str = ""  # the user's line: 'train.py:31'
    code: str = ""
    stack: tuple[Frame, ...] = ()
    stalled: bool = False  # no step has ended for far longer than the last ones took

    def gone(self, now: float) -> bool:
        """Whether its process is there no more, as far as can be known from here."""
        if self.ended:
            return False
        if self.host == socket.gethostname():
            return not alive(self.pid, "", 0, self.time)
        return now - self.time > SILENT


def write(folder: Path, beat: Beat) -> None:
    """Renew a rank's beat as a whole."""
    layout.leave(folder, beat.rank, BEAT, msgspec.json.encode(beat))


def read(folder: Path, rank: int) -> Beat | None:
    """What a rank said last; None when it never did."""
    path = layout.part(folder, rank) / BEAT
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beat)
    except FileNotFoundError:
        return None
    except (OSError, *UNDECODABLE) as error:
        raise FormatError(f"{path} cannot be read: {error}.") from None


def read_all(folder: Path) -> list[Beat]:
    """The last word of every rank that has said one."""
    names = [path.name.removeprefix("rank-") for path in folder.glob("rank-*") if (path / BEAT).is_file()]
    beats = [read(folder, rank) for rank in sorted(int(name) for name in names if name.isdecimal())]
    return [beat for beat in beats if beat is not None]


def table(beats: Sequence[Beat], now: float) -> str:
    """The ranks in lines: step, what each is in, and for how long.

    >>> one = Beat(0, 2, 10, "a", 100.0, 12, 70.0, operation="all_reduce", place="train.py:31")
    >>> two = Beat(1, 2, 11, "a", 100.0, 11, 60.0, operation="sleep", place="train.py:20", ended=True)
    >>> print(table([one, two], 100.0))
    rank  step  for   in           at
    0     12    30 s  all_reduce   train.py:31
    1     11    40 s  (has ended)
    """
    rows = [("rank", "step", "for", "in", "at")]
    for one in beats:
        doing = "(has ended)" if one.ended else "(paused)" if one.paused else one.operation or "?"
        if one.gone(now):
            last = f"; last in {one.operation}" if one.operation else ""
            doing = f"(gone, process {one.pid}{last})"
        place = "" if one.ended or one.paused else one.place
        rows.append((str(one.rank), str(one.step), f"{max(0.0, now - one.since):.0f} s", doing, place))
    wide = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, wide, strict=True)).rstrip() for row in rows
    )
