"""A real server in a thread of the test, and a page's way to ask it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import uvicorn
from websockets.sync.client import ClientConnection, connect

from tensight.server import app
from tensight.server.running import configuration

TOKEN = "right-token"
LONG = 60.0


class Served:
    """A server that runs: `http` is a page that has the token, `stranger` one that has not."""

    def __init__(self, place: Path | None, **options: Any) -> None:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        self.port: int = listening.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.app = app.create(token=TOKEN, port=self.port, place=place, **options)
        self._server = uvicorn.Server(configuration(self.app))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        self._listening = listening
        self.cookie = {f"tensight_{self.port}": TOKEN}
        self.http = httpx.Client(base_url=self.base, cookies=self.cookie, timeout=LONG, trust_env=False)
        self.stranger = httpx.Client(base_url=self.base, timeout=LONG, trust_env=False)

    @contextlib.contextmanager
    def live(self, run: str = "") -> Iterator[ClientConnection]:
        """A page's live connection, which shows a run."""
        headers = {"Cookie": f"tensight_{self.port}={TOKEN}", "Origin": self.base}
        with connect(f"ws://127.0.0.1:{self.port}/api/live", additional_headers=headers, proxy=None) as wire:
            assert msgspec.json.decode(wire.recv(LONG))["instance"]
            wire.send(msgspec.json.encode({"run": run}).decode())
            yield wire

    def close(self) -> None:
        self.http.close()
        self.stranger.close()
        self._server.should_exit = True
        self._thread.join(LONG)
        self._listening.close()


def news(wire: ClientConnection) -> dict[str, Any]:
    """The next thing a page is told about its run."""
    while True:
        message: dict[str, Any] = msgspec.json.decode(wire.recv(LONG))
        if "sequence" in message:
            return message


@contextlib.contextmanager
def serving(place: Path | None, **options: Any) -> Iterator[Served]:
    made = Served(place, **options)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def client(place: Path | None, **options: Any) -> Iterator[httpx.Client]:
    """Only a page that has the token."""
    with serving(place, **options) as served:
        yield served.http
