"""Addresses, tokens left for trainings, and the commands at the terminal."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensight.control import Continue, NextNode, RunToNode, Step, Terminate
from tensight.control.address import Address, find, from_environment, leave
from tensight.control.prompt import Terminal, parse
from tensight.errors import UsageError


def test_a_token_left_by_a_server_is_found_by_a_training_and_readable_by_nobody_else(tmp_path: Path) -> None:
    environment = {"TENSIGHT_STATE": str(tmp_path)}
    path = leave(Address("127.0.0.1", 9001, "secret"), environment)
    assert find("127.0.0.1:9001", environment).token == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_server_that_left_no_token_is_asked_without_one(tmp_path: Path) -> None:
    assert find("localhost:9001", {"TENSIGHT_STATE": str(tmp_path)}) == Address("localhost", 9001, "")


def test_the_environment_may_give_the_token() -> None:
    assert find("[::1]:9001", {"TENSIGHT_TOKEN": "t"}) == Address("::1", 9001, "t")


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":80", "localhost:0", "localhost:70000", "a:b"])
def test_what_is_no_address_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        find(text, {})


def test_our_own_variable_goes_before_those_of_the_old_debugger() -> None:
    old = {"ENABLE_MS_DEBUGGER": "True", "MS_DEBUGGER_HOST": "node7", "MS_DEBUGGER_PORT": "1234"}
    assert from_environment(old) == "node7:1234"
    assert from_environment({**old, "ENABLE_MS_DEBUGGER": "0"}) is None
    assert from_environment({**old, "TENSIGHT_SERVER": "here:1"}) == "here:1"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("c", Continue()),
        ("s", Step(1)),
        ("step 20", Step(20)),
        ("i", NextNode()),
        ("to encoder.layers.0", RunToNode("encoder.layers.0")),
        ("q\n", Terminate()),
        ("", None),
        ("?", None),
    ],
)
def test_commands_at_the_terminal(line: str, command: object) -> None:
    assert parse(line) == command


@pytest.mark.parametrize("line", ["s 0", "s x", "go", "c now", "to"])
def test_what_is_no_command_is_answered_with_those_there_are(line: str) -> None:
    with pytest.raises(UsageError, match="continue"):
        parse(line)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Terminal, int, list[str]]]:
    """A terminal in the foreground, what is typed into it, and what it says."""
    monkeypatch.setattr(Terminal, "_is_ours", lambda self: True)
    reader, writer = os.pipe()
    said: list[str] = []
    yield Terminal(said.append, reader), writer, said
    os.close(reader)


def test_a_line_that_was_typed_is_a_command(typed: tuple[Terminal, int, list[str]]) -> None:
    terminal, writer, said = typed
    assert terminal.command() is None  # nothing was typed, and nothing was waited for
    os.write(writer, b"s 5\n")
    assert terminal.command() == Step(5)
    os.write(writer, b"nonsense\n")
    assert terminal.command() is None
    assert "is no command here" in said[-1]
    os.close(writer)


def test_the_end_of_input_lets_the_training_go_on_and_is_not_waited_for_again(
    typed: tuple[Terminal, int, list[str]],
) -> None:
    terminal, writer, _ = typed
    os.close(writer)
    assert terminal.command() == Continue()
    assert terminal.descriptors == ()
    assert terminal.command() is None


def test_a_terminal_that_somebody_else_has_is_left_alone() -> None:
    reader, writer = os.pipe()  # no terminal of this process
    os.write(writer, b"c\n")
    terminal = Terminal(lambda text: None, reader)
    assert terminal.descriptors == ()
    assert terminal.command() is None
    os.close(reader)
    os.close(writer)
