"""The training's end of the wire, over real sockets."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tensight.control import AddWatchpoint, Link, Machine, Pause
from tensight.control.address import Address, find_beside, leave_beside
from tensight.control.messages import WIRE, Answer, Goodbye, Hello, Pages, Request, Status, encode
from tensight.records import Watchpoint
from tests.control.wire import LONG, FakeServer, send, server

HELLO = Hello(WIRE, "lenet-1", "/runs/lenet-1", 0, 1, os.getpid(), 0.0, "here")


def until(true: Callable[[], object]) -> None:
    """Wait for something that will come."""
    deadline = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


@pytest.fixture
def there() -> object:
    with server() as made:
        yield made


def test_a_training_says_hello_and_then_how_it_is(there: FakeServer) -> None:
    link = Link(there.address, HELLO).start()
    link.send(Status(Machine(step=7)))
    assert there.next(Hello) == HELLO
    status = there.next(Status)
    assert isinstance(status, Status)
    assert status.machine.step == 7
    link.close("finished")
    assert there.next(Goodbye) == Goodbye("finished")
    there.gone()


def test_commands_wait_for_the_training_to_ask_for_them(there: FakeServer) -> None:
    link = Link(there.address, HELLO).start()
    connection = there.connection()
    point = Watchpoint(3, "TL", {"max_gt": math.inf, "min_gt": -0.0})
    send(connection, Request(1, Pause()))
    send(connection, Request(2, AddWatchpoint(point)))
    got: list[object] = []
    until(lambda: got.extend(link.receive()) or len(got) == 2)
    assert got == [Request(1, Pause()), Request(2, AddWatchpoint(point))]
    link.send(Answer(1))
    assert there.next(Answer) == Answer(1)
    link.close("finished")


def test_a_waiting_training_is_woken_by_a_command(there: FakeServer) -> None:
    link = Link(there.address, HELLO).start()
    connection = there.connection()
    until(lambda: link.connected)
    link.receive()
    send(connection, Request(1, Pause()))
    link.wait(LONG)
    until(link.receive)
    link.close("finished")


def test_the_number_of_pages_is_known(there: FakeServer) -> None:
    link = Link(there.address, HELLO).start()
    send(there.connection(), Pages(2))
    until(lambda: link.pages == 2)
    link.close("finished")


def test_a_server_that_comes_back_hears_the_latest_state() -> None:
    with server() as first:
        link = Link(first.address, HELLO).start()
        first.next(Hello)
        port = first.port
    until(lambda: not link.connected)
    assert link.pages == 0
    link.send(Status(Machine(state="paused", step=41)))
    with server(port) as second:
        second.next(Hello)
        status = second.next(Status)
        assert isinstance(status, Status)
        assert status.machine.step == 41
        link.close("finished")


def test_a_connection_that_ends_without_a_word_is_made_anew(there: FakeServer) -> None:
    link = Link(there.address, HELLO).start()
    try:
        there.next(Hello)
        there.connections.get(timeout=LONG).socket.shutdown(socket.SHUT_RDWR)
        there.next(Hello)
        until(lambda: link.connected)
    finally:
        link.close("finished")


def test_a_training_without_a_server_runs_on() -> None:
    link = Link(Address("127.0.0.1", 1, "secret"), HELLO).start()
    link.send(Status(Machine()))
    assert link.receive() == []
    assert not link.connected
    link.close("finished")
    link.send(Status(Machine()))
    assert link.receive() == []


def test_a_wrong_token_is_told_and_not_tried_again(there: FakeServer) -> None:
    link = Link(Address("127.0.0.1", there.port, "wrong"), HELLO).start()
    until(lambda: link.refused)
    assert "refused the token" in link.refused
    link.close("finished")


KILLED = """
import os, signal, sys, time
from tensight.control import Link
from tensight.control.address import Address
from tensight.control.messages import WIRE, Hello
hello = Hello(WIRE, "r", "/r", 0, 1, os.getpid(), 0.0, "h")
link = Link(Address("127.0.0.1", int(sys.argv[1]), "secret"), hello).start()
while not link.connected:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    assert not link.connected
    signal.pause()
sys.stdout.write(str(child) + "\\n")
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_training_is_missed_at_once_though_its_forked_child_lives(there: FakeServer) -> None:
    training = subprocess.Popen([sys.executable, "-c", KILLED, str(there.port)], stdout=subprocess.PIPE)
    assert training.stdout is not None
    child = int(training.stdout.readline())
    try:
        there.gone()
        os.kill(child, 0)  # it lives, and holds nothing of ours
    finally:
        os.kill(child, signal.SIGKILL)
        training.wait(LONG)
        training.stdout.close()


def test_a_training_that_ends_before_the_server_answers_does_not_wait_for_it() -> None:
    with socket.socket() as silent:  # accepts, and never says anything
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        link = Link(Address("127.0.0.1", silent.getsockname()[1], "secret"), HELLO).start()
        until(lambda: link._socket is not None)
        link.close("finished")
        assert not link.connected


def test_the_address_may_become_known_later(there: FakeServer, tmp_path: Path) -> None:
    link = Link(lambda: find_beside(tmp_path), HELLO).start()
    assert not link.connected
    leave_beside(there.address, tmp_path)
    until(lambda: link.connected)
    link.close("finished")


def test_words_that_come_together_with_the_handshake_are_heard() -> None:
    request = encode(Request(1, Pause()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        link = Link(Address("127.0.0.1", listening.getsockname()[1], "secret"), HELLO).start()
        stream, _ = listening.accept()
        with stream:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += stream.recv(4096)
            key = re.search(rb"Sec-WebSocket-Key: (\S+)", head, re.IGNORECASE)
            assert key is not None
            proof = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            answer += b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n"
            stream.sendall(answer + bytes((0x82, len(request))) + request)
            got: list[object] = []
            until(lambda: got.extend(link.receive()) or got)
            assert got == [Request(1, Pause())]
    link.close("finished")


def test_a_program_with_thousands_of_open_files_is_reached(there: FakeServer, many_open_files: None) -> None:
    link = Link(there.address, HELLO).start()
    there.next(Hello)
    send(there.connection(), Request(1, Pause()))
    got: list[object] = []
    deadline = time.monotonic() + LONG
    while not got and time.monotonic() < deadline:
        link.wait(1.0)
        got = list(link.receive())
    assert got == [Request(1, Pause())]
    link.close("finished")
    there.gone()
