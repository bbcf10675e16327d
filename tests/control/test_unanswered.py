"""A server that does not answer, and why."""

from __future__ import annotations

import socket

import pytest

from tensight.control import launch
from tensight.control.address import Address


def test_nobody_listens_and_then_somebody_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = Address("127.0.0.1", server.getsockname()[1], "token")
        assert launch.unanswered(where) == ""
    assert launch.unanswered(where) == "connection refused"


def test_a_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(address: tuple[str, int], seconds: float) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", never)
    assert launch.unanswered(Address("10.0.0.1", 8765, "token")) == "no answer"
