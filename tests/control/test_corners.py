"""Corners of control that a usual training does not come to."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tensight.control import Pause, launch, link, prompt
from tensight.control.address import Address
from tensight.control.link import Link
from tensight.control.machine import Machine
from tensight.control.messages import Status
from tensight.errors import UsageError
from tests.control.test_link import HELLO, LONG, until
from tests.control.wire import FakeServer, server


def test_when_no_port_is_free_it_is_said_which_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(launch, "FIRST_PORT", taken.getsockname()[1])
        monkeypatch.setattr(launch, "TRIES", 1)
        with pytest.raises(UsageError, match=r"no port from \d+ to \d+ of 127\.0\.0\.1 can be had: Address"):
            launch.bind("127.0.0.1", None)


def test_a_certificate_that_cannot_be_used_is_said_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    launch.check_certificate(None, None)
    with pytest.raises(UsageError, match=r"cert\.pem cannot be used"):
        launch.start(tmp_path / "run", tls_cert=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "cert.pem"))
    with pytest.raises(UsageError, match="without --tls-cert"):
        launch.check_certificate(None, "key.pem")
    assert not (tmp_path / "run").exists()


def test_a_page_that_others_can_reach_comes_with_a_warning() -> None:
    assert launch.warning_of("127.0.0.1", None) == ""
    assert "sent in the clear" in launch.warning_of("0.0.0.0", None)
    assert "sent in the clear" not in launch.warning_of("0.0.0.0", "cert.pem")


def test_a_name_is_no_loopback() -> None:
    assert not launch.is_loopback("example.org")


def test_a_server_that_nobody_started_is_not_stopped() -> None:
    launch.stop(Address("127.0.0.1", 1, ""))


class Stubborn:
    """A process that does not end when it is asked to."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.stdin = self

    def terminate(self) -> None:
        self.did.append("terminate")

    def close(self) -> None:
        self.did.append("close")

    def kill(self) -> None:
        self.did.append("kill")

    def wait(self, seconds: float | None = None) -> None:
        if seconds is not None:
            raise subprocess.TimeoutExpired("server", seconds)
        self.did.append("wait")


def test_a_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Stubborn()
    monkeypatch.setitem(launch._started, 4, process)  # type: ignore[arg-type]
    launch.stop(Address("127.0.0.1", 4, ""))
    assert process.did == ["terminate", "close", "kill", "wait"]
    assert 4 not in launch._started


def test_a_forked_child_lets_go_of_the_servers_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Stubborn()
    monkeypatch.setattr(launch, "_started", {4: process})
    launch._let_go_in_child()
    assert process.did == ["close"]


def test_a_paused_training_that_is_told_to_pause_stays_as_it_is() -> None:
    paused = Machine().step_began(0).command(Pause()).step_ended(0)
    assert paused.state == "paused"
    assert paused.command(Pause()) is paused


def test_a_training_that_is_over_ends_no_further_step() -> None:
    over = Machine().step_began(0).over()
    assert over.step_ended(5) is over


def test_a_training_that_was_never_told_of_a_step_runs_when_one_has_ended() -> None:
    assert Machine().step_ended(0).state == "running"


def test_an_empty_line_at_the_terminal_is_answered_by_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt.Terminal, "_is_ours", lambda self: True)
    reader, writer = os.pipe()
    said: list[str] = []
    terminal = prompt.Terminal(said.append, reader)
    os.write(writer, b"?\n")
    assert terminal.command() is None
    assert said == [prompt.HELP]
    os.close(writer)
    os.close(reader)


def test_a_terminal_that_cannot_be_read_lets_the_training_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int, size: int) -> bytes:
        raise OSError("gone")

    monkeypatch.setattr(prompt.Terminal, "_is_ours", lambda self: True)
    reader, writer = os.pipe()
    os.write(writer, b"x\n")
    terminal = prompt.Terminal(lambda text: None, reader)
    with monkeypatch.context() as patch:
        patch.setattr(prompt.os, "read", broken)
        assert type(terminal.command()).__name__ == "Continue"
    assert terminal.descriptors == ()
    os.close(writer)
    os.close(reader)


def fill(writer: int) -> None:
    while True:
        os.write(writer, bytes(4096))


def test_a_pipe_that_is_full_is_no_trouble() -> None:
    reader, writer = link._pipe()
    with pytest.raises(BlockingIOError):
        fill(writer)
    link._poke(writer)
    link._drain(reader)
    os.close(reader)
    os.close(writer)


def heard(there: FakeServer, count: int) -> list[Status]:
    found = [there.next(Status) for _ in range(count)]
    assert all(isinstance(one, Status) for one in found)
    return found  # type: ignore[return-value]


def test_a_link_says_how_the_training_is_when_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HEARTBEAT", 0.01)
    with server() as there:
        made = Link(there.address, HELLO).start()
        made.send(Status(Machine(step=7), ()))
        first, *beats = heard(there, 3)
        assert first.watchpoints == ()
        assert all(one.machine.step == 7 and one.watchpoints is None for one in beats)
        made.close("finished")


def test_a_server_that_falls_silent_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HEARTBEAT", 0.01)
    monkeypatch.setattr(link, "SILENCE", 0.05)
    monkeypatch.setattr(link, "RETRY", LONG)
    with server() as there:
        made = Link(there.address, HELLO).start()
        assert there.next(type(HELLO)) == HELLO
        until(lambda: made.lost_since is not None and not made.connected)
        made.close("finished")


def test_in_a_forked_child_a_link_is_let_go_without_a_word() -> None:
    with server() as there:
        made = Link(there.address, HELLO).start()
        until(lambda: made.connected)
        child = os.fork()
        if child == 0:
            good = made.lost_since is not None and made.pages == 0
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert made.connected
        made.close("finished")
