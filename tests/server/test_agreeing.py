"""Ranks that wait for each other in every step are paused, stepped, let go on and ended together, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tensight.control.address import Address
from tensight.control.link import Link
from tensight.control.machine import Machine
from tensight.control.messages import (
    PATH,
    TOKEN_HEADER,
    WIRE,
    Agreed,
    Answer,
    Boundary,
    Dissolved,
    Hello,
    Meet,
    Pages,
    Request,
    Status,
    encode,
    read_to_training,
)
from tensight.records import Finding, RunEnd, RunInfo, StepRecord, Where
from tensight.server.agreeing import agree
from tensight.session.controlling import Controlling
from tensight.store import Writer
from tests.control.test_controlling import FakeDesk
from tests.server.serving import LONG, TOKEN, Served, serving

FINDING = Finding("dead_relu", "gradient-flow", "dead units", 0.9, 3, Where(module="fc"), "they are dead")


def until(true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LONG
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)
    return found


class Rank(threading.Thread):
    """A rank in a thread: in each step it waits for all others, as in a collective."""

    def __init__(self, folder: Path, address: Address, rank: int, together: threading.Barrier) -> None:
        super().__init__(daemon=True)
        ranks = together.parties
        self.info = RunInfo(folder.name, ("train.py",), 0.0, rank=rank, ranks=ranks, pid=os.getpid())
        self.writer = Writer(folder, self.info)
        self.link = Link(address, Hello.of(self.info, folder)).start()
        self.stopped: list[str] = []
        self.together = together
        self.control = Controlling(
            self.link, FakeDesk(), self.stopped.append, grace=LONG, on_finding="pause", ranks=lambda: ranks
        )
        self.finds_at = -1
        self.steps = 0
        self.broken = False
        self.start()

    def run(self) -> None:
        self.control.started()
        while not self.stopped:
            self.control.step_began(self.steps)
            try:
                self.together.wait(LONG)
            except threading.BrokenBarrierError:
                self.broken = True  # one rank has left the others alone
                break
            record = StepRecord(self.steps, 0.0, 0.001, loss=1.0)
            self.control.step_ended(record, (FINDING,) if self.steps == self.finds_at else ())
            self.steps += 1
        self.writer.end(RunEnd("stopped", 0.0, steps=self.steps))
        self.writer.close()
        self.control.ended(RunEnd("stopped", 0.0, steps=self.steps))


class Ranks:
    """Some ranks of one training, and a page that drives them."""

    def __init__(self, served: Served, folder: Path, count: int) -> None:
        self.served = served
        self.together = threading.Barrier(count)
        address = Address("127.0.0.1", served.port, TOKEN)
        self.all = [Rank(folder / "one", address, rank, self.together) for rank in range(count)]
        until(lambda: len(self.state().get("ranks", ())) == count and self.state()["state"] == "running")

    def state(self) -> dict[str, Any]:
        answer = self.served.http.get("/api/runs/one")
        got: dict[str, Any] = (answer.json().get("control") or {}) if answer.status_code == 200 else {}
        return got

    def drive(self, do: str, **fields: object) -> httpx.Response:
        return self.served.http.post("/api/runs/one/control", json={"do": do, **fields})

    def paused(self) -> list[int]:
        """The step that each rank is paused behind."""
        until(lambda: all(one.control.machine.state == "paused" for one in self.all))
        until(lambda: self.state()["state"] == "paused")
        return [one.control.machine.step for one in self.all]

    def end(self) -> None:
        for one in self.all:
            one.stopped.append("end of the test")
        if any(one.control.machine.state == "paused" for one in self.all):
            self.drive("continue")
        self.together.abort()
        for one in self.all:
            one.join(LONG)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(None, mode="serve") as made:
        yield made


@pytest.fixture
def ranks(served: Served, tmp_path: Path) -> Iterator[Ranks]:
    made = Ranks(served, tmp_path, 3)
    yield made
    made.end()


def test_ranks_pause_behind_the_same_step_however_often(ranks: Ranks) -> None:
    for _ in range(10):
        assert ranks.drive("pause").status_code == 200
        steps = ranks.paused()
        assert len(set(steps)) == 1
        assert ranks.drive("continue").status_code == 200
        until(lambda before=steps[0]: all(one.control.machine.step > before for one in ranks.all))
    assert not any(one.broken for one in ranks.all)


def test_steps_are_made_together(ranks: Ranks) -> None:
    ranks.drive("pause")
    (before,) = set(ranks.paused())
    assert ranks.drive("step", count=7).status_code == 200
    until(lambda: all(one.control.machine.step == before + 7 for one in ranks.all))
    assert set(ranks.paused()) == {before + 7}


def test_what_one_rank_finds_pauses_all_of_them(ranks: Ranks) -> None:
    ranks.drive("pause")
    (before,) = set(ranks.paused())
    ranks.all[1].finds_at = before + 2
    ranks.drive("continue")
    until(lambda: ranks.state()["reason"] == "finding: dead units")
    steps = ranks.paused()
    assert len(set(steps)) == 1
    assert steps[0] >= before + 2


def test_ranks_end_behind_the_same_step(ranks: Ranks) -> None:
    assert ranks.drive("terminate").status_code == 200
    for one in ranks.all:
        one.join(LONG)
    assert not any(one.broken for one in ranks.all)
    assert len({one.steps for one in ranks.all}) == 1
    assert [one.stopped for one in ranks.all] == [["terminated from the page"]] * 3


def test_without_all_ranks_nobody_is_paused_and_the_missing_one_is_named(served: Served, tmp_path: Path) -> None:
    ranks = Ranks(served, tmp_path, 2)
    ranks.all[1].link.close("for the test")
    until(lambda: [one["state"] for one in ranks.state()["ranks"]][1] in ("lost", "ended"))
    served.app.state.house.trainings._ranks["one"][1].machine = Machine("lost")  # gone without a word
    answer = ranks.drive("pause")
    assert answer.status_code == 409
    assert "Rank 1 is not connected" in answer.json()["error"]
    before = ranks.all[0].steps
    ranks.all[0].finds_at = before + 20  # what one of them finds pauses nobody either
    until(lambda: ranks.all[0].steps > before + 40)
    ranks.end()


class Puppet:
    """A rank whose answers are given."""

    def __init__(self, answers: Callable[[Meet], Boundary | None]) -> None:
        self.open = True
        self.boundaries: asyncio.Queue[Boundary] = asyncio.Queue()
        self.sent: list[object] = []
        self._answers = answers

    async def send(self, message: Meet | Agreed | Dissolved) -> None:
        self.sent.append(message)
        answer = self._answers(message) if isinstance(message, Meet) else None
        if answer is not None:
            self.boundaries.put_nowait(answer)


def test_a_step_further_ahead_is_proposed_until_every_rank_can_hold_there() -> None:
    quick = Puppet(lambda meet: Boundary(meet.round, 100, meet.step >= 110))
    slow = Puppet(lambda meet: Boundary(meet.round, 99, meet.step > 99))
    assert asyncio.run(agree(lambda: [quick, slow], "why"))
    proposed = [one.step for one in quick.sent if isinstance(one, Meet)]
    assert proposed == [-1, 101, 102, 104, 108, 116]
    assert [one.sent[-1] for one in (quick, slow)] == [quick.sent[-1]] * 2
    assert isinstance(quick.sent[-1], Agreed)


def test_a_rank_that_is_there_and_silent_lets_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensight.server.agreeing.ANSWER", 0.05)
    there = Puppet(lambda meet: Boundary(meet.round, 5, meet.step > 5))
    silent = Puppet(lambda meet: None)
    assert not asyncio.run(agree(lambda: [there, silent], "why"))
    assert isinstance(there.sent[-1], Dissolved)


def test_a_rank_that_goes_while_they_agree_is_not_waited_for() -> None:
    there = Puppet(lambda meet: Boundary(meet.round, 5, meet.step > 5))

    def leave(meet: Meet) -> Boundary | None:
        going.open = False
        return None

    going = Puppet(leave)
    assert asyncio.run(agree(lambda: [one for one in (there, going) if one.open], "why"))
    assert isinstance(there.sent[-1], Agreed)


class Wire:
    """A training's end of the wire, by hand."""

    def __init__(self, socket: ClientConnection, run_dir: Path, machine: Machine) -> None:
        self.socket = socket
        self.say(Hello(WIRE, "one", str(run_dir), 0, 1, 77, 0.0, "elsewhere"))
        self.say(Status(machine))

    def say(self, message: Any) -> None:
        self.socket.send(encode(message))

    def request(self) -> Request:
        while True:
            data = self.socket.recv(LONG)
            assert isinstance(data, bytes)
            message = read_to_training(data)
            if isinstance(message, Request):
                return message
            assert isinstance(message, Pages)


@contextlib.contextmanager
def wire(served: Served, run_dir: Path, machine: Machine) -> Iterator[Wire]:
    address = f"ws://127.0.0.1:{served.port}{PATH}"
    with connect(address, additional_headers={TOKEN_HEADER: TOKEN}, proxy=None) as socket:
        yield Wire(socket, run_dir, machine)


@pytest.mark.parametrize("made", [False, True], ids=["the step was not made", "the step was made"])
def test_a_command_that_a_broken_link_has_swallowed_is_given_again_once(
    served: Served, tmp_path: Path, made: bool
) -> None:
    Writer(tmp_path / "one", RunInfo("one", ("train.py",), 0.0)).close()
    answers: list[int] = []

    def step() -> None:
        answers.append(served.http.post("/api/runs/one/control", json={"do": "step"}).status_code)

    page = threading.Thread(target=step)
    with wire(served, tmp_path / "one", Machine("paused", 4)) as first:
        until(lambda: (served.http.get("/api/runs/one").json().get("control") or {}).get("state") == "paused")
        page.start()
        asked = first.request()
    with wire(served, tmp_path / "one", Machine("paused", 5 if made else 4)) as second:
        if not made:
            again = second.request()
            assert again == asked
            second.say(Answer(again.id))
        page.join(LONG)
    assert answers == [200]
