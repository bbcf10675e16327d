"""Records that ranks send because this server does not see their disks: kept as run directories of its own."""

from __future__ import annotations

import os
import re
import secrets
import threading
from pathlib import Path

from tensight.control.records import Granted, Offer
from tensight.errors import ControlError, NameNotFound, UsageError
from tensight.server.library import Library

_MARK = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}")
_DEEPEST = 4  # parts of a path below a run


class Receiving:
    """Folders of trainings on other machines, one for all ranks of a launch."""

    def __init__(self, place: Path | None, library: Library) -> None:
        self._place = place
        self._library = library
        self._parts: dict[str, Path] = {}  # by key: the folder of one rank
        self._latest: dict[str, Path] = {}  # by group: the run that its ranks join
        self._lock = threading.Lock()

    def grant(self, offer: Offer) -> Granted:
        """Answer a rank: send nothing, since its folder is seen from here, or send to a folder of ours."""
        if _sees(offer):
            return Granted()
        if self._place is None:
            raise ControlError("This server takes no records; start one by `tensight serve`.")
        if not 0 <= offer.rank < offer.ranks < 10**9:
            raise UsageError(f"Rank {offer.rank} of {offer.ranks} cannot be.")
        with self._lock:
            folder = self._latest.get(offer.group) if offer.group and offer.ranks > 1 else None
            if folder is None or (folder / f"rank-{offer.rank}").exists():  # another launch by the same name
                folder = self._new(offer.name)
                self._latest[offer.group] = folder
            part = folder / f"rank-{offer.rank}"
            part.mkdir()
            key = secrets.token_hex(16)
            self._parts[key] = part
        self._library.add(folder)
        return Granted(key, str(folder))

    def put(self, key: str, name: str, at: int, data: bytes, *, last: bool) -> None:
        """Take a piece of a file. Files that grow are there as far as they came; others when they are whole."""
        path = self._path(key, name)
        target = path if path.suffix == ".log" else path.with_name(f".{path.name}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "r+b" if at and target.exists() else "wb") as file:
                if at != os.fstat(file.fileno()).st_size and at:
                    raise ControlError("This file has another length here; send it again from its beginning.")
                file.seek(at)
                file.write(data)
            if last and target != path:
                os.replace(target, path)
        except OSError as error:
            raise UsageError(f"It cannot be kept here: {error.strerror}.") from error

    def remove(self, key: str, name: str) -> None:
        self._path(key, name).unlink(missing_ok=True)

    def _new(self, name: str) -> Path:
        assert self._place is not None
        base = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60].lstrip(".") or "run"
        number = 1
        while True:
            folder = self._place / (base if number == 1 else f"{base}~{number}")
            try:
                folder.mkdir(parents=True)
                return folder.resolve()
            except FileExistsError:
                number += 1
            except OSError as error:
                raise UsageError(f"Records cannot be kept in {self._place}: {error.strerror}.") from error

    def _path(self, key: str, name: str) -> Path:
        """The file that is meant. Names come from elsewhere: none may lead out of the rank's folder."""
        part = self._parts.get(key)
        if part is None:
            raise NameNotFound("This server has granted no such key; it may have been started anew.")
        names = name.split("/")
        if names[0] != part.name or not 2 <= len(names) <= _DEEPEST or not all(map(_NAME.fullmatch, names)):
            raise UsageError(f"{name[:80]!r} is no file of {part.name}.")
        return part.parent.joinpath(*names)


def _sees(offer: Offer) -> bool:
    """Whether what the rank has left in its folder can be seen from here."""
    if not _MARK.fullmatch(offer.mark) or not os.path.isabs(offer.run_dir):
        return False
    try:
        return (Path(offer.run_dir) / f".{offer.mark}").exists()
    except (OSError, ValueError):
        return False
