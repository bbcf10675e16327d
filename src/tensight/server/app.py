"""Composes the server: the runs, the trainings that connect, the routes, the page, and who may ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import tensight
from tensight.errors import TensightError
from tensight.server import routes
from tensight.server.answers import Mode, Refusal, Welcome
from tensight.server.guard import Guard
from tensight.server.library import Library
from tensight.server.live import Live
from tensight.server.receiving import Receiving
from tensight.server.routes.asking import House
from tensight.server.wire import Json

STATIC = Path(__file__).parent / "static"


def create(
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 8765,
    place: Path | None = None,
    mode: Mode = "view",
    keep: Path | None = None,
) -> Starlette:
    """The application. `place` is a run, or a folder of runs; without one only connected trainings are shown.

    `keep` is where records are put that ranks send whose disks are not seen from here; without it they are refused.
    """
    library = Library(place)
    run = ""
    if mode == "run" and place is not None:
        run = library.add(place).id
    shown = str(place) if place is not None else f"{host}:{port}"

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        follower = asyncio.create_task(app.state.house.live.follow())
        try:
            yield
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower

    app = Starlette(
        routes=[
            *routes.ALL,
            Mount("/assets", StaticFiles(directory=STATIC / "assets", check_dir=False)),
            Route("/", page),
            Route("/compare", page),
            Route("/run/{rest:path}", page),
            Route("/tune/{rest:path}", page),
            Route("/favicon.svg", icon),
        ],
        middleware=[Middleware(Guard, token=token, host=host, port=port)],
        exception_handlers={TensightError: refused, HTTPException: not_served, Exception: broken},
        lifespan=lifespan,
    )
    app.state.house = House(
        Welcome(tensight.__version__, mode, shown, run), library, Live(library), Receiving(keep, library)
    )
    return app


def page(request: Request) -> Response:
    """The page itself: it holds no data, so everybody may have it."""
    index = STATIC / "index.html"
    if not index.exists():
        return PlainTextResponse("The page has not been built: run scripts/web in the source folder.", 503)
    return FileResponse(index, headers={"Cache-Control": "no-cache"})


def icon(request: Request) -> Response:
    return FileResponse(STATIC / "favicon.svg")


def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, TensightError)
    return Json(Refusal(str(error)), error.http_code)


def not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = Json(Refusal(error.detail), error.status_code)
    response.headers.update(error.headers or {})
    return response


def broken(request: Request, error: Exception) -> Response:
    return Json(Refusal(f"Tensight failed here: {type(error).__name__}: {error}"), 500)
