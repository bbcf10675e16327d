"""Opens a dump directory as if it were a run: statistics are taken once and kept in Tensight's cache."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from tensight.dump.cached import made_once
from tensight.dump.importing import Progress, import_dump
from tensight.dump.readers import looks_like_dump
from tensight.store import is_run
from tensight.workers import Workers

FORMAT = 2  # of what is cached; another one is made again
_MOST_LOOKED_AT = 200_000
_SILENT = 2.0  # seconds


def run_of(path: str | Path, progress: Progress | None = None, workers: Workers | None = None) -> Path | None:
    """The run that shows a dump, made now or before, with the help of `workers`; None when the folder is no dump.

    The values stay in the dump. A dump that has changed since is read again.
    """
    folder = Path(path)
    if not folder.is_dir() or is_run(folder) or not looks_like_dump(folder):
        return None
    show = progress or shown_progress(folder)
    return made_once(
        fingerprint(folder),
        folder,
        lambda made, inside: import_dump(folder, made, in_place=inside, progress=show, workers=workers),
    )


def fingerprint(folder: Path) -> str:
    """Changes when files come, go or change."""
    digest = hashlib.blake2b(f"{FORMAT} {folder.resolve()}".encode(), digest_size=16)
    count = 0
    waiting = [folder]
    while waiting and count < _MOST_LOOKED_AT:
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
            except OSError:
                continue
            digest.update(f"{entry.path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode(errors="replace"))
            count += 1
    return digest.hexdigest()


def shown_progress(path: Path) -> Progress:
    """Shows on a terminal how far the reading is, when it takes longer than two seconds; elsewhere nothing."""
    began = time.monotonic()
    shown = False

    def show(done: int, of: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and (shown or time.monotonic() - began > _SILENT):
            shown = True
            end = "\r" if done < of else "\n"
            print(f"reading {path.name}: {done} of {of} tensors", end=end, file=sys.stderr, flush=True)

    return show
