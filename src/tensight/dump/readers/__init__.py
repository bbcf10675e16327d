"""Readers of dumps that others made: one file for each format, and a line here."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from tensight.dump.readers.base import Dumped, Found, Tree
from tensight.errors import FormatError, NameNotFound
from tensight.workers.apart import Visit, read_apart

_TELLING = re.compile(
    r"rank_\d+|device_\d+|iteration_\d+|step\d+|20\d{12}|dump\.json|statistic\.csv|\.dump_metadata"
    r"|.+\.(input|output)\.\d+\.\w+(\.\w+)?\.npy"
)
_DEEPEST_LOOK = 2
_MOST_LOOKED_AT = 2000
_SIGN_OF_LIFE = 1024  # tensors

Read = Callable[[Tree, Found], Iterator[Dumped]]

# format → where its reader is. A reader passes over files that are not its own, so several may serve one folder.
READERS = {
    "MindSpore 2.x .npy": "tensight.dump.readers.mindspore_npy:read",
    "MindSpore statistic.csv": "tensight.dump.readers.mindspore_csv:read",
    "MindSpore r1.1 .bin": "tensight.dump.readers.mindspore_bin:read",
    "Ascend asynchronous": "tensight.dump.readers.ascend:read",
    "msprobe": "tensight.dump.readers.msprobe:read",
}


def scan_foreign(path: str | Path) -> tuple[Found, list[Dumped]]:
    """`scan` by a child with little memory and time: files that end it are left out with a sentence."""
    return read_apart(scan, Path(path))


def scan(path: str | Path, visit: Visit | None = None) -> tuple[Found, list[Dumped]]:
    """Everything a dump directory holds, of whatever format; its values stay in their files.

    What cannot be read is a sentence in `Found.troubles`; a FormatError says when there is nothing at all.
    """
    root = Path(path)
    if not root.exists():
        raise NameNotFound(f"there is no dump {root}")
    if not root.is_dir():
        raise FormatError(f"{root} is a file: give the folder of a dump")
    found = Found(root)
    tree = Tree(root, found.trouble, visit)
    tensors: list[Dumped] = []
    for name, place in READERS.items():
        module, _, attribute = place.partition(":")
        read: Read = getattr(importlib.import_module(module), attribute)
        before = len(tensors)
        for one in read(tree, found):
            tensors.append(one)
            if len(tensors) % _SIGN_OF_LIFE == 0:
                tree.visit.goes_on()
        if len(tensors) > before:
            found.formats.append(name)
    if not tensors:
        why = f": {found.troubles[0]}" if found.troubles else ""
        raise FormatError(
            f"{root} holds no dump that is known here (MindSpore .npy, statistic.csv or .bin, Ascend, msprobe){why}"
        )
    if len(found.formats) > 1 and set(found.formats) != {"MindSpore 2.x .npy", "MindSpore statistic.csv"}:
        found.trouble(f"{root.name} holds dumps of several formats: {', '.join(found.formats)}; all were read")
    return found, tensors


def looks_like_dump(path: Path) -> bool:
    """Whether a folder is worth reading as a dump: a quick look at names alone, not far down."""
    waiting = [(path, 0)]
    looked = 0
    while waiting:
        folder, depth = waiting.pop(0)
        try:
            entries = list(islice(os.scandir(folder), _MOST_LOOKED_AT))
        except OSError:
            continue
        if any(_TELLING.fullmatch(entry.name) for entry in entries):
            return True
        looked += len(entries)
        if depth < _DEEPEST_LOOK and looked < _MOST_LOOKED_AT:
            waiting += [(Path(entry.path), depth + 1) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return False
