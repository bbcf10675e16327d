"""Which runs there are: one, all in a folder, or those whose trainings have connected."""

from __future__ import annotations

import threading
from pathlib import Path

from tensight import store
from tensight.errors import NameNotFound, UsageError
from tensight.runs import foreign
from tensight.server.recording import Recording


class Library:
    """Runs by their name. A folder that is a run is shown alone; any other is looked through, one level deep."""

    def __init__(self, place: Path | None = None) -> None:
        if place is not None and not store.is_run(place):
            place = foreign.run_of(place) or place  # a dump is shown by the run that is made of it
        self.place = place
        self._recordings: dict[str, Recording] = {}
        self._lock = threading.RLock()
        if place is not None and store.is_run(place):
            self.add(place)

    def add(self, folder: Path) -> Recording:
        """The recording of a folder, which need not hold anything yet."""
        try:
            folder = folder.resolve()
        except (ValueError, RuntimeError, OSError) as error:  # no path at all, or links in a circle
            raise UsageError(f"{str(folder)[:80]!r} is no folder of a run: {error}") from None
        with self._lock:
            for known in self._recordings.values():
                if known.folder == folder:
                    return known
            name, number = folder.name or "run", 2
            while name in self._recordings:
                name, number = f"{folder.name}~{number}", number + 1
            self._recordings[name] = Recording(name, folder)
            return self._recordings[name]

    def all(self) -> list[Recording]:
        """Every run, with those that came into the folder since."""
        with self._lock:
            place = self.place
            if place is not None and place.is_dir() and not store.is_run(place):
                for folder in sorted(place.iterdir()):
                    if folder.is_dir() and store.is_run(folder):
                        self.add(folder)
            return list(self._recordings.values())

    def find(self, id: str) -> Recording:
        with self._lock:
            if id not in self._recordings:
                self.all()
            try:
                return self._recordings[id]
            except KeyError:
                raise NameNotFound(f"There is no run {id[:80]!r} here.") from None
