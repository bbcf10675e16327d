"""How long the training waits for a copy of itself."""

from __future__ import annotations

import errno
import os
import time

import pytest

from tensight.replay import copying


@pytest.fixture
def slow_copy():
    """A copy that answers after half a second."""
    made = copying.make_copy(0, b"now")
    if isinstance(made, copying.Woken):
        time.sleep(0.5)
        made.leave(b"done")
    yield made
    made.end()


@pytest.fixture
def silent_copy():
    """A copy that does not answer."""
    made = copying.make_copy(0, b"now")
    if isinstance(made, copying.Woken):
        time.sleep(copying.LIMIT)
        made.leave(b"")
    yield made
    made.end()


def test_a_copy_that_is_slow_by_itself_is_not_waited_for(silent_copy):
    assert silent_copy.wait(0.1) is None


def test_a_training_with_thousands_of_open_files_waits_as_others_do(many_open_files, slow_copy):
    assert slow_copy.wait(60.0) == b"done"


def test_a_copy_that_gets_no_core_is_waited_for_longer(slow_copy, monkeypatch):
    begun = time.monotonic()
    monkeypatch.setattr(copying, "MOST_HELD_UP", 100.0)
    monkeypatch.setattr(copying, "without_core", lambda pid: time.monotonic() - begun)
    assert slow_copy.wait(0.1) == b"done"


def test_but_not_for_ever(silent_copy, monkeypatch):
    begun = time.monotonic()
    monkeypatch.setattr(copying, "without_core", lambda pid: time.monotonic() - begun)
    monkeypatch.setattr(copying, "MOST_HELD_UP", 1.0)
    assert silent_copy.wait(0.1) is None


@pytest.mark.parametrize("there_are", [0, 1])
def test_a_process_that_may_open_no_more_files_keeps_those_it_could_still_open(there_are, monkeypatch):
    pipe, made = os.pipe, []

    def few():
        if len(made) == there_are:
            raise OSError(errno.EMFILE, "too many open files")
        made.append(pipe())
        return made[-1]

    monkeypatch.setattr(os, "pipe", few)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="too many open files"):
        copying.make_copy(0)
    assert os.listdir("/proc/self/fd") == before


def test_time_without_a_core_is_known_for_this_process_and_none_for_a_stranger():
    assert copying.without_core(os.getpid()) >= 0.0
    assert copying.without_core(-1) == 0.0


def test_a_copy_that_is_not_needed_any_more_is_not_waited_for_and_leaves_nothing_behind():
    made = copying.make_copy(0)
    if isinstance(made, copying.Woken):
        made.leave(b"")
    made.leave()
    until = time.monotonic() + 20
    while (used := made.left()) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert used is not None
    assert used >= 0.0
    with pytest.raises(ChildProcessError):
        os.waitpid(made.pid, 0)
    assert made.left() == 0.0  # somebody has collected it
