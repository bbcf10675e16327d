"""A profile in a run directory: `rank-<n>/profile.msgpack` and, beside it, the trace for other tools."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tensight.errors import UNDECODABLE, DamagedError, NameNotFound
from tensight.records.timing import Profile
from tensight.store import layout

PROFILE = "profile.msgpack"
TRACE = "trace.json.gz"
MOST_BYTES = 256 << 20


def profile_file(folder: Path, rank: int = 0) -> Path:
    """
    >>> profile_file(Path("runs/train-1"), 2).as_posix()
    'runs/train-1/rank-2/profile.msgpack'
    """
    return layout.part(folder, rank) / PROFILE


def trace_file(folder: Path, rank: int = 0) -> Path:
    return layout.part(folder, rank) / TRACE


def write(folder: Path, profile: Profile) -> None:
    """Write a rank's profile; the file appears whole or not at all."""
    target = profile_file(folder, profile.rank)
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(".part")
    half.write_bytes(msgspec.msgpack.encode(profile))
    half.replace(target)


def read(path: Path) -> Profile:
    """The profile in a file."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DamagedError(f"{path}: is larger than any profile; it was not written by tensight profile")
        return msgspec.msgpack.decode(path.read_bytes(), type=Profile)
    except UNDECODABLE as error:
        raise DamagedError(f"{path}: cannot be read as a profile ({error}); take it again") from None


def profiles(folder: Path) -> list[Profile]:
    """The profiles of all ranks of a run, in order; none when it was not profiled."""
    found = [path for path in folder.glob(f"rank-*/{PROFILE}") if _rank(path) is not None]
    return [read(path) for path in sorted(found, key=lambda path: _rank(path) or 0)]


def _rank(path: Path) -> int | None:
    number = path.parent.name.removeprefix("rank-")
    return int(number) if number.isascii() and number.isdecimal() else None


def need(folder: Path) -> list[Profile]:
    """The profiles of a run that must have some."""
    found = profiles(folder)
    if not found:
        raise NameNotFound(f"{folder}: holds no profile; take one with `tensight profile SCRIPT`")
    return found
