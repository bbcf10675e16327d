"""The training's end of the wire.

One daemon thread owns the socket. It shares nothing with the training but two queues and two wake-up pipes: no lock is
ever held while user code runs, and the training never waits for the network. A forked child closes its copies at once,
so that the server sees a killed training immediately, whatever data loader workers it leaves behind.
"""

from __future__ import annotations

import math
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import msgspec
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State as WireState
from websockets.uri import parse_uri

from tensight.control.address import Address
from tensight.control.meeting import Meeting
from tensight.control.messages import (
    PATH,
    TOKEN_HEADER,
    Agreed,
    Dissolved,
    FromTraining,
    Goodbye,
    Hello,
    Meet,
    Pages,
    Status,
    ToTraining,
    encode,
    read_to_training,
)

HEARTBEAT = 2.0
SILENCE = 15.0  # a server that says nothing for so long is gone
RETRY = 1.0
PATIENCE = 15.0  # for one answer of the server, which may only just have been started


class Link:
    """A connection that is kept up: messages in, messages out, never an error, never a wait.

    `send` may be called from any thread. `receive` hands out what has come. `wake` is a file descriptor that becomes
    readable when something has come or the connection has changed.
    """

    def __init__(
        self, address: Address | Callable[[], Address | None], hello: Hello | Callable[[], Hello | None]
    ) -> None:
        self._address = (lambda: address) if isinstance(address, Address) else address  # asked again at every try
        self._hello = (lambda: hello) if isinstance(hello, Hello) else hello  # None: not known yet who we are
        self.meeting = Meeting()
        self.refused = ""  # why the server does not want us; then no further try is made
        self.lost_since: float | None = time.monotonic()  # None while connected
        self.pages = 0
        self.pid = os.getpid()
        self._status: Status | None = None
        self._inbox: deque[ToTraining] = deque()
        self._outbox: deque[FromTraining] = deque()
        self._closing = False
        self._socket: socket.socket | None = None
        self.wake, self._wake_training = _pipe()
        self._wake_link, self._wake_other = _pipe()
        self._thread = threading.Thread(target=self._keep_up, name="tensight-control", daemon=True)
        _links.add(self)

    def start(self) -> Link:
        self._thread.start()
        return self

    @property
    def connected(self) -> bool:
        return self.lost_since is None

    def send(self, message: FromTraining) -> None:
        """Hand over a message. The latest status is also what a server hears first when it comes back."""
        if self._closing:
            return
        if isinstance(message, Status):
            self._status = message
            if not self.connected:
                return  # the latest status is told on connecting
        self._outbox.append(message)
        _poke(self._wake_other)

    def receive(self) -> list[ToTraining]:
        """All that has come since the last call, in order."""
        if self._closing:
            return []
        _drain(self.wake)
        messages = []
        while self._inbox:
            messages.append(self._inbox.popleft())
        return messages

    def wait(self, seconds: float, *also: int) -> None:
        """Sleep until something has come, one of the file descriptors `also` is readable, or the time is over."""
        _readable((self.wake, *also), seconds)

    def close(self, ended: str, seconds: float = 2.0) -> None:
        """Say goodbye and wait a moment until it is out; without a connection nothing is waited for."""
        if os.getpid() != self.pid or self._closing:
            return
        connected = self.connected
        if connected:
            self._outbox.append(Goodbye(ended))
        self._closing = True
        _poke(self._wake_other)
        self._thread.join(seconds if connected else 0.05)
        if not self._thread.is_alive():
            _links.discard(self)
            self._close_pipes()

    def _forget(self) -> None:
        """In a forked child: let go of everything without a word to the server."""
        self._closing = True
        self.lost_since = time.monotonic()
        self.pages = 0
        if self._socket is not None:
            self._socket.close()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for descriptor in (self.wake, self._wake_training, self._wake_link, self._wake_other):
            os.close(descriptor)

    def _keep_up(self) -> None:
        while not self._closing and not self.refused:
            try:
                self._talk()
            except Exception:
                pass  # the server is gone, or is none of ours; whatever it is, this thread must stay and try again
            finally:
                self._disconnected()
            if not self._closing:
                _readable((self._wake_link,), RETRY)
                _drain(self._wake_link)

    def _disconnected(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.lost_since is None:
            self.lost_since = time.monotonic()
        self.pages = 0
        _poke(self._wake_training)

    def _talk(self) -> None:
        hello = self._hello()
        address = self._address() if hello is not None else None
        if hello is None or address is None:
            return
        self._socket = stream = _connect(address)
        wire = ClientProtocol(parse_uri(f"ws://{address.netloc}{PATH}"), max_size=2**24)
        request = wire.connect()
        request.headers[TOKEN_HEADER] = address.token
        wire.send_request(request)
        self._flush(wire, stream)
        while wire.state is WireState.CONNECTING and wire.handshake_exc is None:
            self._read(wire, stream)
        if wire.handshake_exc is not None or wire.state is not WireState.OPEN:
            response = getattr(wire.handshake_exc, "response", None)
            if response is not None and response.status_code in (401, 403):
                self.refused = f"the server at {address.netloc} refused the token"
            return
        self._outbox.clear()
        self.lost_since = None  # from here on a status is queued, so none can fall between the two lines below
        self._write(wire, stream, hello)
        if self._status is not None:
            self._write(wire, stream, self._status)
        _poke(self._wake_training)
        self._take(wire)  # the server's first words may have come together with its handshake
        self._flush(wire, stream)
        self._exchange(wire, stream)

    def _exchange(self, wire: ClientProtocol, stream: socket.socket) -> None:
        heard = beaten = time.monotonic()
        while wire.state is WireState.OPEN:
            readable = _readable((stream.fileno(), self._wake_link), HEARTBEAT)
            now = time.monotonic()
            if self._wake_link in readable:
                _drain(self._wake_link)
            while self._outbox:
                message = self._outbox.popleft()
                self._write(wire, stream, message)
                beaten = now
            if self._closing:
                wire.send_close(1000)
                self._flush(wire, stream)
                return
            if now - beaten >= HEARTBEAT and self._status is not None:
                self._write(wire, stream, msgspec.structs.replace(self._status, watchpoints=None))
                beaten = now
            if stream.fileno() in readable:
                self._read(wire, stream)
                heard = now
                self._take(wire)
                self._flush(wire, stream)
            elif now - heard > SILENCE:
                return

    def _take(self, wire: ClientProtocol) -> None:
        came = False
        for event in wire.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                message = read_to_training(event.data)
                if isinstance(message, Pages):
                    self.pages = message.count
                elif isinstance(message, Meet | Agreed | Dissolved):
                    # answered here: the training itself may be waiting for another rank
                    answer = self.meeting.hear(message)
                    if answer is not None:
                        wire.send_binary(encode(answer))
                else:
                    self._inbox.append(message)
                came = True
        if came:
            _poke(self._wake_training)

    def _read(self, wire: ClientProtocol, stream: socket.socket) -> None:
        while True:
            data = stream.recv(65536)
            if not data:
                wire.receive_eof()
                raise EOFError
            wire.receive_data(data)
            if not isinstance(stream, ssl.SSLSocket) or not stream.pending():
                return  # what is left inside the cipher would not wake `select`

    def _write(self, wire: ClientProtocol, stream: socket.socket, message: FromTraining) -> None:
        wire.send_binary(encode(message))
        self._flush(wire, stream)

    def _flush(self, wire: ClientProtocol, stream: socket.socket) -> None:
        for data in wire.data_to_send():
            if data:
                stream.sendall(data)


def _connect(address: Address) -> socket.socket:
    stream = socket.create_connection((address.host, address.port), timeout=PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.tls:
        return stream
    context = ssl.create_default_context(cafile=address.trust or None)
    # A certificate that we were given as a file is known by itself; its names are those other machines use.
    context.check_hostname = not address.trust
    return context.wrap_socket(stream, server_hostname=address.host)


def _readable(descriptors: tuple[int, ...], seconds: float) -> set[int]:
    """Those that can be read, or have ended. A program may have thousands of files open: `select` knows only 1024."""
    waiting = select.poll()
    for one in descriptors:
        waiting.register(one, select.POLLIN)
    return {one for one, _ in waiting.poll(max(0, math.ceil(1000 * seconds)))}


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


def _poke(writer: int) -> None:
    try:
        os.write(writer, b"x")
    except BlockingIOError:
        pass  # full: the reader will wake anyway


def _drain(reader: int) -> None:
    try:
        while os.read(reader, 4096):
            pass
    except BlockingIOError:
        pass


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _close_in_child() -> None:
    for link in list(_links):
        link._forget()
    _links.clear()


os.register_at_fork(after_in_child=_close_in_child)
