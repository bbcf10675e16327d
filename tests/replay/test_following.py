"""A copy of the process that stays: it is asked again and again, and ends with its training."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tensight.replay import copying, shadowing
from tensight.replay.shadowing import Follower, Shadowing


class Plain:
    """Nothing has to be told of a copy."""

    def before_copy(self) -> None:
        self.copied = ""

    def after_copy(self, *, copy: bool) -> None:
        self.copied = "copy" if copy else "training"


@pytest.fixture
def work() -> dict[str, Any]:
    return {"count": 0}


@pytest.fixture
def follower(tmp_path: Path, work: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr(shadowing, "ROOM", 0)

    def answer(order: bytes) -> bytes:
        work["count"] += 1
        if order == b"sleep":
            time.sleep(60)
        if order == b"die":
            os._exit(7)
        if order == b"fail":
            raise ValueError(order)
        return f"{work['count']} {os.getpid()} {len(order)}".encode()

    made = Shadowing(cast("Any", Plain()), tmp_path, name="rank-0").follow(cast("Any", Plain()), answer)
    assert made is not None
    yield made
    made.end()


def test_one_copy_answers_all_orders(follower: Follower, work: dict[str, Any]) -> None:
    answers = [(follower.ask(order) or b"").decode().split() for order in (b"", b"abc", b"x" * 3_000_000)]
    assert [(count, size) for count, _, size in answers] == [("1", "0"), ("2", "3"), ("3", "3000000")]
    assert len({process for _, process, _ in answers} | {str(os.getpid())}) == 2
    assert work["count"] == 0


@pytest.mark.parametrize("order", [b"die", b"fail"])
def test_a_copy_that_is_gone_answers_nothing_and_keeps_nobody_waiting(follower: Follower, order: bytes) -> None:
    assert follower.ask(b"") is not None
    begun = time.monotonic()
    assert follower.ask(order) == b""
    assert follower.ask(b"") == b""
    assert time.monotonic() - begun < 30


def test_a_copy_that_hangs_is_not_waited_for(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "PATIENCE", 0.2)
    assert follower.ask(b"sleep") is None


def test_a_copy_that_waits_for_orders_has_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: dict[str, Any]
) -> None:
    monkeypatch.setattr(shadowing, "ROOM", 0)
    monkeypatch.setattr(copying, "LIMIT", 2.0)  # of which the copy needs a part to begin
    made = Shadowing(cast("Any", Plain()), tmp_path, name="rank-0").follow(cast("Any", Plain()), lambda order: b"here")
    assert made is not None
    assert made.ask(b"") == b"here"
    time.sleep(2.5)
    assert made.ask(b"") == b"here"
    made.end()


def test_no_copy_stays_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "memory", lambda: (3 << 30, 1 << 30))
    assert Shadowing(cast("Any", Plain()), tmp_path, name="x").follow(cast("Any", Plain()), lambda order: b"") is None


def test_a_copy_that_is_stuck_is_given_up_long_before_one_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadowing, "STILL", 0.5)
    monkeypatch.setattr(shadowing, "TRIES", 2)
    shadow = cast("Any", Plain())
    made = Shadowing(shadow, tmp_path, name="rank-0")
    begun = time.monotonic()
    assert made.in_copy(shadow, lambda: time.sleep(60) or b"late") is None
    assert time.monotonic() - begun < 30

    def busily() -> bytes:
        until = time.process_time() + 1.5
        while time.process_time() < until:
            pass
        return b"done"

    assert made.in_copy(shadow, busily) == b"done"
