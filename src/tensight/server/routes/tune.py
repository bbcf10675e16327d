"""Hyper-parameter searches: their trials, each of which is a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import UNDECODABLE, DamagedError, NameNotFound
from tensight.records.search import Search
from tensight.server.library import Library
from tensight.server.routes.asking import house
from tensight.server.time_answers import SearchView
from tensight.server.wire import Json
from tensight.store import is_run

FILE = "search.json"
MOST_BYTES = 64 << 20
MOST_SEARCHES = 200


def listing(request: Request) -> Response:
    """All searches in the folder that is served."""
    library = house(request).library
    found = []
    for name, folder in _folders(library).items():
        try:
            found.append(SearchView(name, str(folder), _read(folder), {}))
        except DamagedError:
            continue
    return Json(found)


def one(request: Request) -> Response:
    """One search; the runs of its trials are opened for the page."""
    library = house(request).library
    name = request.path_params["search"]
    folder = _folders(library).get(name)
    if folder is None:
        raise NameNotFound(f"There is no search {name[:80]!r} here.")
    search = _read(folder)
    runs = {}
    for trial in search.trials:
        place = folder / f"trial-{trial.number}"
        if trial.run and is_run(place):
            runs[trial.number] = library.add(place).id
    return Json(SearchView(name, str(folder), search, runs))


def _folders(library: Library) -> dict[str, Path]:
    place = library.place
    if place is None or not place.is_dir():
        return {}
    if (place / FILE).is_file():
        return {place.resolve().name or "search": place}
    found = sorted(folder for folder in place.iterdir() if (folder / FILE).is_file())
    return {folder.name: folder for folder in found[:MOST_SEARCHES]}


def _read(folder: Path) -> Search:
    path = folder / FILE
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DamagedError(f"{path} is larger than any search.")
        return msgspec.json.decode(path.read_bytes(), type=Search)
    except (*UNDECODABLE, OSError) as error:
        raise DamagedError(f"{path} cannot be read as a search: {error}") from None


ROUTES = [
    Route("/api/searches", listing),
    Route("/api/searches/{search}", one),
]
