"""Runs that live elsewhere (`s3://bucket/runs/lenet-1`, `memory://…`): read through a copy in Tensight's cache.

What a reader needs at once is fetched at once: the segments and graphs. Kept tensors are large and few are looked at,
so a file of them is fetched when it is asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tensight.errors import MissingExtra, NameNotFound, RunError, UsageError
from tensight.stats.building import cache_folder

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)")
_PLAIN = re.compile(r"[^/\\\0:]{1,200}")  # a name of a file that is safe on every system
_PART = re.compile(r"rank-\d{1,9}")
_TENSORS = "tensors"
_NOTE = ".source"
_TAGS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")
_lock = threading.RLock()


class Note(msgspec.Struct):
    """Where a copy comes from, and which version of each file it has."""

    address: str
    files: dict[str, tuple[int | None, str]] = {}


class There(NamedTuple):
    """A file elsewhere."""

    name: str  # as its file system calls it
    version: tuple[int | None, str]


def address(path: str | Path) -> str | None:
    """The address that is meant, also where a Path has taken one of its slashes; None for what is a path.

    >>> address(Path("s3://bucket/runs/a")), address("runs/a"), address(r"C:\\runs")
    ('s3://bucket/runs/a', None, None)
    """
    text = str(path)
    match = _ADDRESS.fullmatch(text)
    if match is None or os.path.exists(text):
        return None
    return f"{match[1]}:{'///' if match[1] in ('file', 'local') else '//'}{match[2]}"


def local(path: str | Path) -> Path:
    """The folder to read: the path itself, or a copy of what an address names, brought up to date."""
    found = address(path)
    return Path(path) if found is None else pull(found)


def pull(source: str) -> Path:
    """Bring the copy of a run, or of a folder of runs, up to date; returns its folder."""
    source = source.rstrip("/")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", source.rpartition("/")[2])[:60].lstrip(".") or "run"
    folder = _base() / hashlib.blake2b(source.encode(), digest_size=12).hexdigest() / name
    with _lock, spoken_of(source):
        system, root = file_system(source)
        system.invalidate_cache()
        there = dict(_listed(system, root))
        if not there:
            raise NameNotFound(f"there is no run at {source}: give the address of a run or of a folder of runs")
        note = _note(folder) or Note(source)
        for relative, one in there.items():
            if _is_tensors(relative) and not (folder / relative).exists():
                continue  # fetched when it is asked for
            if note.files.get(relative) != one.version or not (folder / relative).exists():
                _fetch(system, one.name, folder / relative)
                note.files[relative] = one.version
        for relative in [known for known in note.files if known not in there]:
            (folder / relative).unlink(missing_ok=True)  # dropped by retention
            del note.files[relative]
        _write(folder / _NOTE, msgspec.json.encode(note))
    return folder


def fetch_missing(path: Path) -> bool:
    """Fetch a file of kept tensors into a copy that does not have it yet; False when this is no copy, or has none."""
    base = _base()
    if not path.is_absolute():
        path = path.absolute()
    if not path.is_relative_to(base) or path.exists():
        return False
    parts = path.relative_to(base).parts
    if len(parts) < 4:
        return False
    folder = base / parts[0] / parts[1]
    relative = "/".join(parts[2:])
    with _lock:
        note = _note(folder)
        if note is None or not _is_safe(relative):
            return False
        with spoken_of(note.address):
            system, root = file_system(note.address)
            name = f"{root}/{relative}"
            if not system.exists(name):
                return False
            _fetch(system, name, path)
            note.files[relative] = _version(system, system.info(name))
            _write(folder / _NOTE, msgspec.json.encode(note))
    return True


def file_system(source: str) -> tuple[Any, str]:
    """The file system behind an address, and what the address is called in it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra("fsspec", "remote", f"a run at {source}") from error
    try:
        system, root = fsspec.core.url_to_fs(source)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{source} cannot be reached from here: {_said(error)}") from error
    return system, str(root).rstrip("/")


class spoken_of:
    """Turns whatever a file system raises into one sentence with the address in it."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise NameNotFound(f"there is nothing at {self._source}") from error
        if isinstance(error, Exception) and not isinstance(error, (UsageError, RunError, MissingExtra)):
            raise RunError(f"{self._source} cannot be read: {_said(error)}") from error


def is_of_a_run(relative: str) -> bool:
    """Whether a path below a run, or below a folder of runs, is that of a run's file."""
    parts = relative.split("/")
    return any(_PART.fullmatch(part) for part in parts[:2]) and len(parts) > 1


def _listed(system: Any, root: str) -> Iterator[tuple[str, There]]:
    for name, info in sorted(system.find(root, detail=True).items()):
        if not str(name).startswith(root + "/"):
            continue
        relative = str(name)[len(root) + 1 :]
        if is_of_a_run(relative) and _is_safe(relative):
            yield relative, There(str(name), _version(system, info))


def _version(system: Any, info: dict[str, Any]) -> tuple[int | None, str]:
    if info.get("size") is None:
        info = system.info(info["name"])
    size = info.get("size")
    tag = next((str(info[key]) for key in _TAGS if info.get(key) is not None), "")
    return (None if size is None else int(size), tag)


def _is_safe(relative: str) -> bool:
    """Names come from elsewhere: none may lead out of the copy or stand for something of ours.

    >>> _is_safe("rank-0/000000.log"), _is_safe("../x"), _is_safe("rank-0/.source")
    (True, False, False)
    """
    parts = relative.split("/")
    return all(_PLAIN.fullmatch(part) and not part.startswith(".") for part in parts) and len(parts) <= 6


def _is_tensors(relative: str) -> bool:
    return _TENSORS in relative.split("/")[:-1]


def _fetch(system: Any, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".{uuid.uuid4().hex}.new")
    try:
        system.get_file(name, str(temporary))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _note(folder: Path) -> Note | None:
    try:
        return msgspec.json.decode((folder / _NOTE).read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{uuid.uuid4().hex}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _base() -> Path:
    return Path(os.path.abspath(os.environ.get("TENSIGHT_CACHE") or cache_folder())) / "remote"


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
