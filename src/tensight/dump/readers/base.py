"""What every reader of a foreign dump gives: tensors by rank, step and place, their values left in their files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tensight.dump.anf import Anf
from tensight.errors import DamagedError
from tensight.records import Stats, TensorInfo
from tensight.workers.apart import Visit

Array = np.ndarray[Any, Any]

MOST_FILES = 5_000_000
DEEPEST = 16
MOST_TROUBLES = 200

# own dtype → how its values lie in a file
HELD = {
    "bfloat16": "<u2",
    "float8_e4m3fn": "u1",
    "float8_e5m2": "u1",
    **{name: f"<{code}" for name, code in (("float16", "f2"), ("float32", "f4"), ("float64", "f8"))},
    **{f"{sign}int{bits}": f"<{sign[:1] or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "?",
    "complex64": "<c8",
    "complex128": "<c16",
}


class Raw(NamedTuple):
    """Values in a file: one stretch of bytes, checked to lie inside it."""

    file: Path
    offset: int
    dtype: str  # its own: 'bfloat16'
    held: str  # as NumPy reads it: '<u2'
    shape: tuple[int, ...]
    fortran: bool = False

    @property
    def elements(self) -> int:
        total = 1
        for length in self.shape:
            total *= length
        return total

    @property
    def nbytes(self) -> int:
        return self.elements * np.dtype(self.held).itemsize

    def check(self, size: int) -> Raw:
        """Itself, when the file is long enough for what it claims."""
        if any(length < 0 for length in self.shape):
            raise DamagedError(f"{self.file.name} is damaged: its shape {self.shape} is none")
        if self.offset + self.nbytes > size:
            raise DamagedError(
                f"{self.file.name} is cut off or damaged: it claims {self.nbytes:,} bytes of values and has "
                f"{max(0, size - self.offset):,}"
            )
        return self


class Dumped(NamedTuple):
    """A tensor of a dump. The id of `info` means nothing yet."""

    rank: int
    step: int
    time: float  # orders the tensors of a step
    info: TensorInfo
    raw: Raw | None = None
    stats: Stats | None = None
    text: str = ""  # its full name in the dump


@dataclass
class Found:
    """What readers found beside tensors."""

    root: Path
    framework: str = ""
    version: str = ""
    formats: list[str] = field(default_factory=list)
    graphs: dict[tuple[int, str], Anf] = field(default_factory=dict)  # by rank and name
    troubles: list[str] = field(default_factory=list)
    left_out: int = 0  # troubles beyond those that are listed
    orders: dict[int, dict[str, int]] = field(default_factory=dict)  # place in the order of execution, by rank

    def trouble(self, sentence: object) -> None:
        text = " ".join(str(sentence).split())[:400]
        if len(self.troubles) < MOST_TROUBLES:
            self.troubles.append(text)
        else:
            self.left_out += 1


class Tree:
    """The files below a folder, by folder. Links are not followed, so that nothing outside is read.

    `visit` is told of each file before it is taken apart, and names those that must be left out.
    """

    def __init__(self, root: Path, trouble: Callable[[object], None], visit: Visit | None = None) -> None:
        self.root = root
        self.visit = visit or Visit()
        self.folders: dict[Path, dict[str, int]] = {}  # sizes by name
        count = 0
        waiting = [(root, 0)]
        while waiting:
            folder, depth = waiting.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                trouble(f"{self.name(folder)} cannot be read: {error.strerror or error}")
                continue
            files = self.folders.setdefault(folder, {})
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError as error:
                    trouble(f"{self.name(Path(entry.path))} cannot be read: {error.strerror or error}")
                    continue
                if stat.S_ISDIR(found.st_mode) and depth < DEEPEST:
                    waiting.append((Path(entry.path), depth + 1))
                elif stat.S_ISDIR(found.st_mode):
                    trouble(f"{self.name(Path(entry.path))} lies deeper than {DEEPEST} folders and was left out")
                elif stat.S_ISREG(found.st_mode) and Path(entry.path) in self.visit.without:
                    trouble(f"{self.name(Path(entry.path))} is refused: {self.visit.without[Path(entry.path)]}")
                elif stat.S_ISREG(found.st_mode):
                    files[entry.name] = found.st_size
                    count += 1
                elif stat.S_ISLNK(found.st_mode):
                    trouble(f"{self.name(Path(entry.path))} is a link and was not followed")
            if count > MOST_FILES:
                trouble(f"{root} holds more than {MOST_FILES:,} files; the rest was left out")
                break

    def name(self, path: Path) -> str:
        """A path as sentences show it: below the dump."""
        try:
            return str(path.relative_to(self.root)) or "."
        except ValueError:
            return str(path)

    def all(self) -> Iterator[tuple[Path, dict[str, int]]]:
        yield from sorted(self.folders.items())


def numbered(name: str, prefix: str = "") -> int | None:
    """
    >>> numbered("rank_3", "rank_"), numbered("12"), numbered("x")
    (3, 12, None)
    """
    rest = name.removeprefix(prefix)
    if prefix and rest == name:
        return None
    return int(rest) if rest.isdecimal() and rest.isascii() and len(rest) < 16 else None


def rank_of(root: Path, folder: Path, *prefixes: str) -> int:
    """The rank that a folder's path names, 0 when it names none."""
    for part in (root.name, *folder.relative_to(root).parts):
        for prefix in prefixes:
            found = numbered(part, prefix)
            if found is not None:
                return found
    return 0
