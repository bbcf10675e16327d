"""A rank's files at a server that does not answer as it should."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensight.control import Link
from tensight.control.address import Address
from tensight.control.records import Offer, Records
from tensight.errors import ControlError
from tests.control.test_link import HELLO, until
from tests.control.wire import server


class Answering:
    """A server that gives one answer to everything."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1], "token")
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listening.accept()
            except OSError:
                return
            with wire:
                wire.recv(1 << 16)
                wire.sendall(self._answer)

    def close(self) -> None:
        self._listening.close()


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.fixture
def answering() -> Iterator[object]:
    made: list[Answering] = []

    def one(answer: bytes) -> Records:
        made.append(Answering(answer))
        return Records(made[-1].address, "key")

    yield one
    for one_made in made:
        one_made.close()


OFFER = Offer("lenet-1", "/runs/lenet-1", "mark")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (http("200 OK", b"\xff no json"), "gave no answer that can be read"),
        (b"SSH-2.0-OpenSSH\r\n", "takes no records: BadStatusLine"),
        (http("500 Oh", b"<html>"), "takes no records: it does not say why"),
        (http("500 Oh", b'{"error": "the disk\\n is full"}'), "takes no records: the disk is full"),
    ],
)
def test_a_server_that_takes_no_records_is_named_with_its_reason(answering, answer: bytes, sentence: str) -> None:
    with pytest.raises(ControlError, match=sentence):
        answering(answer).offer(OFFER)


def test_what_was_sent_is_there_and_what_was_not_taken_is_not(answering, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    records = answering(http("204 No Content", b""))
    assert not records.exists("/rank-0/file")
    records.put_file(str(tmp_path / "file"), "/rank-0/file")
    assert records.exists("/rank-0/file")
    refusing = answering(http("507 Full", b'{"error": "no room"}'))
    with pytest.raises(ControlError, match="no room"):
        refusing.put_file(str(tmp_path / "file"), "/rank-0/file")
    assert not refusing.exists("/rank-0/file")


def test_a_training_that_does_not_know_yet_who_it_is_waits_with_its_hello() -> None:
    known = threading.Event()
    asked = threading.Event()

    def hello() -> object:
        asked.set()
        return HELLO if known.is_set() else None

    with server() as there:
        link = Link(there.address, hello).start()
        try:
            assert asked.wait(60)
            until(lambda: link.lost_since is not None)
            known.set()
            assert there.next(type(HELLO)) == HELLO
        finally:
            link.close("finished")
