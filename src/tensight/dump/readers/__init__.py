"""Readers of dumps that others made: one file for each format, and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tensight.dump.readers.base import Dumped, Found, Tree
from tensight.errors import FormatError, NameNotFound

Read = Callable[[Tree, Found], Iterator[Dumped]]

# format → where its reader is. A reader passes over files that are not its own, so several may serve one folder.
READERS = {
    "MindSpore 2.x .npy": "tensight.dump.readers.mindspore_npy:read",
    "MindSpore statistic.csv": "tensight.dump.readers.mindspore_csv:read",
    "MindSpore r1.1 .bin": "tensight.dump.readers.mindspore_bin:read",
    "Ascend asynchronous": "tensight.dump.readers.ascend:read",
    "msprobe": "tensight.dump.readers.msprobe:read",
}


def scan(path: str | Path) -> tuple[Found, list[Dumped]]:
    """Everything a dump directory holds, of whatever format; its values stay in their files.

    What cannot be read is a sentence in `Found.troubles`; a FormatError says when there is nothing at all.
    """
    root = Path(path)
    if not root.exists():
        raise NameNotFound(f"there is no dump {root}")
    if not root.is_dir():
        raise FormatError(f"{root} is a file: give the folder of a dump")
    found = Found(root)
    tree = Tree(root, found.trouble)
    tensors: list[Dumped] = []
    for name, place in READERS.items():
        module, _, attribute = place.partition(":")
        read: Read = getattr(importlib.import_module(module), attribute)
        before = len(tensors)
        tensors.extend(read(tree, found))
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
    """Whether a folder is worth reading as a dump: a quick look at names alone."""
    try:
        names = [child.name for child in path.iterdir()][:1000]
    except OSError:
        return False
    if any(name.startswith(("rank_", "step", "iteration_", "device_")) or name == "dump.json" for name in names):
        return True
    return any(name.endswith((".npy", ".bin")) or name == "statistic.csv" for name in names)
