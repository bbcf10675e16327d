"""Several ranks share one terminal: one of them speaks for all, and nothing is said twice."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import struct
import termios
from pathlib import Path

import msgspec
import pytest

from tensight.records import Coverage, Finding, StepRecord, Where
from tensight.session.launch import _first_to_say
from tensight.session.terminal import Terminal

FINDING = Finding("replicas_diverge", "distributed", "ranks differ", 0.9, 3, Where(parameter="w"), "because")


def terminals(folder: Path, count: int) -> list[tuple[Terminal, io.StringIO]]:
    made = []
    for rank in range(count):
        stream = io.StringIO()
        terminal = Terminal(stream, rank=rank)
        terminal.first_to_say = lambda words: _first_to_say(folder, words)
        made.append((terminal, stream))
    return made


def test_a_finding_of_all_ranks_is_said_by_the_first_that_has_it(tmp_path: Path) -> None:
    (zero, said_by_zero), (one, said_by_one) = terminals(tmp_path, 2)
    one.say(FINDING)
    zero.say(FINDING)
    zero.say(FINDING)
    assert said_by_one.getvalue().count("ranks differ") == 1
    assert said_by_zero.getvalue() == ""


def test_the_cause_that_all_ranks_together_show_is_said_after_what_one_could_see(tmp_path: Path) -> None:
    ((zero, said),) = terminals(tmp_path, 1)
    better = msgspec.structs.replace(FINDING, title="ranks use different learning rates")
    for finding in (FINDING, better, better):
        zero.say(finding)
    assert said.getvalue().count("✖") == 2
    own = Finding("dead_relu", "gradient-flow", "dead", 0.9, 3, Where(module="a"), "because")
    zero.say(own)
    zero.say(msgspec.structs.replace(own, title="all dead"))  # grown, but no other cause
    assert "all dead" not in said.getvalue()


def test_other_ranks_name_themselves_and_leave_what_is_the_same_everywhere_to_the_first(tmp_path: Path) -> None:
    (zero, said_by_zero), (one, said_by_one) = terminals(tmp_path, 2)
    for terminal in (zero, one):
        terminal.covered(Coverage())
        terminal.line("this rank is late")
    assert said_by_zero.getvalue().count("tensight: ") == 2
    assert said_by_one.getvalue() == "tensight, rank 1: this rank is late\n"
    one.say(Finding("dead_relu", "gradient-flow", "dead", 0.9, 3, Where(module="a"), "because", rank=1))
    assert "✖ step 3, rank 1  dead" in said_by_one.getvalue()


def test_a_disk_that_is_full_says_it_twice_rather_than_never(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert _first_to_say(tmp_path / "file", "words")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=errno.errorcode.get)
def test_a_disk_without_room_is_no_error_inside_tensight(number: int) -> None:
    said = io.StringIO()
    terminal = Terminal(said)
    terminal.failed("store: step 7", OSError(number, os.strerror(number)), again=False)
    terminal.failed("store: end of the run", OSError(number, os.strerror(number)), again=False)
    first, last = said.getvalue().splitlines()
    words = f"tensight: step 7 could not be recorded: {os.strerror(number)}"
    assert first == f"{words}; recording is tried again later. The training goes on"
    assert last.startswith("tensight: end of the run could not be recorded: ")
    assert "again" not in last


def test_other_errors_of_ours_are_called_so() -> None:
    said = io.StringIO()
    terminal = Terminal(said)
    terminal.failed("store: step 7", ValueError("x"), again=False)
    terminal.failed("observe", OSError(errno.ENOSPC, "full"), again=False)
    assert said.getvalue().count("an error inside Tensight (") == 2


@pytest.mark.parametrize(("rewinds", "shown"), [(True, 0), (False, 1)])
def test_a_nan_in_the_data_waits_for_the_second_look_which_may_name_its_line(rewinds: bool, shown: int) -> None:
    said = io.StringIO()
    terminal = Terminal(said)
    terminal.rewinds = rewinds
    early = Finding("nan_in_input", "data", "the input of step 5 holds NaN", 0.9, 5, Where(), "because")
    terminal.finding(early)
    assert said.getvalue().count("✖") == shown
    assert "looking again" in said.getvalue() or not rewinds
    better = msgspec.structs.replace(early, replay="exact", where=Where(file="data.py", line=8))
    terminal.finding(better)
    assert said.getvalue().count("✖") == 1
    assert ("data.py:8" in said.getvalue()) is rewinds


def test_the_status_line_is_never_wider_than_the_terminal() -> None:
    held, given = os.openpty()
    fcntl.ioctl(given, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    with open(given, "w") as screen:
        terminal = Terminal(screen)
        terminal.step(StepRecord(123456, 0.0, 0.1, loss=1.23456, scalars={"gradient_norm": 2.5}), 1.031)
    said = os.read(held, 4096).decode()
    os.close(held)
    assert said == "\rstep 123456  loss 1.2346  gra"
