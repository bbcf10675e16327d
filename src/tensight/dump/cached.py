"""Runs that show what others wrote, made once and kept in Tensight's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from tensight.store import is_run
from tensight.store.links import dumps_folder

Make = Callable[[Path, bool], object]


def made_once(key: str, path: Path, make: Make) -> Path:
    """The run that shows `path`, made now or before; `key` is another when what it shows is another.

    `make` is given the folder of the run and whether that folder is going to the cache: where the cache cannot be
    written, the run is made anew in a temporary folder. A run that is there is whole: it is made beside its place.
    """
    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in path.resolve().name)[:60] or "dump"
    target = dumps_folder() / key / name
    if is_run(target):
        return target
    inside = True
    try:
        target.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = target.parent.parent / f".new-{uuid.uuid4().hex}"
        made.mkdir(mode=0o700)
    except OSError:
        inside = False
        made = Path(tempfile.mkdtemp(prefix="tensight-dump-"))
    try:
        make(made / name, inside)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    if not inside:
        return made / name
    try:
        os.replace(made, target.parent)
    except OSError:  # another process was quicker
        shutil.rmtree(made, ignore_errors=True)
    return target
