"""Names of files and folders in a run directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

TENSORS = "tensors"
_PART = re.compile(r"rank-(\d+)")
_SEGMENT = re.compile(r"(\d{6,})\.log")


def part(folder: Path, rank: int) -> Path:
    """The folder of one rank.

    >>> part(Path("runs/lenet-1"), 3).as_posix()
    'runs/lenet-1/rank-3'
    """
    return folder / f"rank-{rank}"


def leave(folder: Path, rank: int, name: str, data: bytes) -> None:
    """Put a small file of a rank there as a whole: whoever reads it meanwhile finds the old one or the new one."""
    place = part(folder, rank)
    place.mkdir(parents=True, exist_ok=True)
    new = place / f"{name}.{os.getpid()}"
    new.write_bytes(data)
    os.replace(new, place / name)


def segment(part_folder: Path, number: int) -> Path:
    """
    >>> segment(Path("rank-0"), 7).as_posix()
    'rank-0/000007.log'
    """
    return part_folder / f"{number:06d}.log"


def tensor_file(part_folder: Path, step: int) -> Path:
    """
    >>> tensor_file(Path("rank-0"), 153).as_posix()
    'rank-0/tensors/step-153.safetensors'
    """
    return part_folder / TENSORS / f"step-{step}.safetensors"


def segments(part_folder: Path) -> list[int]:
    """Numbers of the segments that are there, in order. A folder that is gone has none."""
    return _numbers(part_folder, _SEGMENT)


def ranks(folder: Path) -> list[int]:
    """Ranks that have written at least one segment, in order."""
    return [rank for rank in _numbers(folder, _PART) if segments(part(folder, rank))]


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return bool(ranks(folder))


def _numbers(folder: Path, pattern: re.Pattern[str]) -> list[int]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
    return sorted(int(match.group(1)) for match in map(pattern.fullmatch, names) if match)
