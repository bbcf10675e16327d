"""A server's end of the wire, for tests of the training's end."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from http import HTTPStatus

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tensight.control.address import Address
from tensight.control.messages import PATH, TOKEN_HEADER, FromTraining, ToTraining, encode, read_from_training

LONG = 60.0


class FakeServer:
    """Accepts trainings; `heard` has what they said and None when one has gone."""

    def __init__(self, port: int = 0) -> None:
        self.heard: queue.Queue[FromTraining | None] = queue.Queue()
        self.connections: queue.Queue[ServerConnection] = queue.Queue()
        self._server = serve(self._talk, "127.0.0.1", port, process_request=self._check)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port, "secret")

    def _check(self, connection: ServerConnection, request: object) -> object:
        headers = request.headers  # type: ignore[attr-defined]
        if headers.get(TOKEN_HEADER) != "secret" or request.path != PATH:  # type: ignore[attr-defined]
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no\n")
        return None

    def _talk(self, connection: ServerConnection) -> None:
        self.connections.put(connection)
        with contextlib.suppress(ConnectionClosed):
            for data in connection:
                assert isinstance(data, bytes)
                self.heard.put(read_from_training(data))
        self.heard.put(None)

    def next(self, kind: type) -> object:
        """The next thing of this kind that is heard; others are passed over."""
        while True:
            message = self.heard.get(timeout=LONG)
            if isinstance(message, kind) or (message is None and kind is type(None)):
                return message

    def gone(self) -> None:
        """Wait until a training has gone."""
        while self.heard.get(timeout=LONG) is not None:
            pass

    def connection(self) -> ServerConnection:
        return self.connections.get(timeout=LONG)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(LONG)


def send(connection: ServerConnection, message: ToTraining) -> None:
    connection.send(encode(message))


@contextlib.contextmanager
def server(port: int = 0) -> Iterator[FakeServer]:
    made = FakeServer(port)
    try:
        yield made
    finally:
        made.close()
