"""Runs the server in this process until nobody needs it any more."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette

from tensight.control.address import leave, new_token
from tensight.control.launch import address_of, bind, check_certificate, warning_of
from tensight.errors import FormatError, NameNotFound
from tensight.runs import foreign
from tensight.server import app as application
from tensight.server.library import Library
from tensight.server.live import Live
from tensight.store.layout import is_run

LINGER = 20.0
"""Seconds that a server without a training waits for its last page to come back, as after a reload."""


def configuration(app: Starlette, *, tls_cert: str | None = None, tls_key: str | None = None) -> uvicorn.Config:
    """How the application is served, everywhere."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=1 << 24,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        timeout_graceful_shutdown=2,
    )


def run(
    app: Starlette,
    listening: socket.socket,
    *,
    parent: int | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    ready: Callable[[], None] = lambda: None,
    seconds: float | None = None,
) -> None:
    """Serve until Ctrl-C, for so many `seconds`, or, with a `parent`'s pipe, until it and the last page are gone."""
    server = uvicorn.Server(configuration(app, tls_cert=tls_cert, tls_key=tls_key))

    async def main() -> None:
        tasks = []
        if parent is not None:
            tasks.append(asyncio.create_task(_outlive(server, app.state.house.live, parent)))
        if seconds is not None:
            tasks.append(asyncio.create_task(_end_after(server, seconds)))
        ready()
        await server.serve(sockets=[listening])
        for task in tasks:
            task.cancel()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())


async def _end_after(server: uvicorn.Server, seconds: float) -> None:
    await asyncio.sleep(seconds)
    server.should_exit = True


async def _outlive(server: uvicorn.Server, live: Live, parent: int) -> None:
    """Stop when the parent's end of the pipe is closed and no page has been open for a while."""
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(parent, gone.set)
    await gone.wait()
    asyncio.get_running_loop().remove_reader(parent)
    while True:
        if not live.pages:
            live.left.clear()
            waited = 0.0
            # A page that was being reloaded just now is given the time to come back; one that never was is not.
            while live.served and waited < LINGER and not live.pages:
                await asyncio.sleep(0.5)
                waited += 0.5
            if not live.pages:
                break
        await live.left.wait()
        live.left.clear()
    server.should_exit = True


def view(
    folder: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    seconds: float | None = None,
) -> None:
    """Serve the page for a recorded run, or for a folder of them, until Ctrl-C or for so many seconds."""
    if folder.is_file() and foreign.run_of(folder) is None:
        raise FormatError(f"{folder} is a file, not a run: name a run, or a folder of runs")
    if not folder.exists():
        raise NameNotFound(f"there is no folder {folder}; name a run, or a folder of runs")
    _serve_here(
        folder.resolve(), host, port, open_browser=open_browser, tls_cert=tls_cert, tls_key=tls_key, seconds=seconds
    )


def serve(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    keep: Path = Path("runs"),
) -> None:
    """Wait for trainings, until Ctrl-C. They come by `tensight run --server HOST:PORT`.

    What they record on disks that are not seen from here, they send; it is put into `keep`.
    """
    _serve_here(None, host, port, open_browser=False, tls_cert=tls_cert, tls_key=tls_key, keep=keep)


def _serve_here(
    folder: Path | None,
    host: str,
    port: int | None,
    *,
    open_browser: bool,
    tls_cert: str | None,
    tls_key: str | None,
    seconds: float | None = None,
    keep: Path | None = None,
) -> None:
    token = new_token()
    check_certificate(tls_cert, tls_key)
    listening = bind(host, port)
    address = address_of(listening, host, token, tls_cert=tls_cert)
    mode = "view" if folder is not None else "serve"
    app = application.create(
        token=token,
        host=host,
        port=address.port,
        place=folder,
        mode="view" if mode == "view" else "serve",
        keep=keep,
    )
    left: Path | None = None
    with contextlib.suppress(OSError):  # then a training needs the token in its environment
        left = leave(address)

    page = address.url
    library: Library = app.state.house.library
    if library.place is not None and is_run(library.place):  # a run, or the run that a dump was made into
        page = address.page(f"/run/{quote(library.add(library.place).id)}")

    def ready() -> None:
        print(f"page    {page}")
        print(f"tunnel  {address.tunnel}")
        if warning := warning_of(host, tls_cert):
            print(warning, file=sys.stderr)
        if mode == "view" and not library.all():
            print(f"{folder} holds no run yet: the page lists those that come", file=sys.stderr)
        if mode == "serve":
            print(f"waiting for trainings: tensight run --server {address.netloc} train.py")
        sys.stdout.flush()
        if open_browser and sys.stdout.isatty():
            webbrowser.open(page)

    try:
        run(app, listening, ready=ready, tls_cert=tls_cert, tls_key=tls_key, seconds=seconds)
    finally:
        if left is not None:
            with contextlib.suppress(OSError):
                left.unlink()
