"""Trainings that are connected: what they are told, what is told about them, and what happens when one end goes."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tensight.control import launch
from tensight.control.address import Address
from tensight.control.launch import bind
from tensight.control.link import Link
from tensight.control.messages import Hello
from tensight.errors import UsageError
from tensight.records import RunEnd, RunInfo, StepRecord
from tensight.session.controlling import Controlling
from tensight.store import Writer
from tests.control.test_controlling import FakeDesk
from tests.server.serving import LONG, TOKEN, Served, news, serving


def until(true: Callable[[], Any]) -> Any:
    """Wait for something that will come, and hand it over."""
    deadline = time.monotonic() + LONG
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
    return found


class WritingDesk(FakeDesk):
    """Keeps watchpoints as a recorder does: in the run directory too."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self.writer = writer

    def add(self, watchpoint: Any) -> None:
        super().add(watchpoint)
        self.writer.watchpoint(watchpoint)

    change = add

    def remove(self, id: int) -> None:
        super().remove(id)
        self.writer.watchpoint_removed(id)


class Training(threading.Thread):
    """A training in a thread: empty steps, as many as it is let."""

    def __init__(self, folder: Path, address: Address, *, rank: int = 0, ranks: int = 1) -> None:
        super().__init__(daemon=True)
        self.info = RunInfo(folder.name, ("train.py",), 0.0, rank=rank, ranks=ranks)
        self.writer = Writer(folder, self.info)
        self.link = Link(address, Hello.of(self.info, folder)).start()
        self.stopped: list[str] = []
        desk = WritingDesk(self.writer)
        self.control = Controlling(self.link, desk, self.stopped.append, grace=LONG, ranks=lambda: ranks)
        self.start()

    def run(self) -> None:
        self.control.started()
        step = 0
        while not self.stopped:
            self.control.step_began(step)
            for node in ("conv.0", "head"):
                self.control.node(node, "forward")
            time.sleep(0.005)
            record = StepRecord(step, 0.0, 0.005, loss=1.0)
            self.writer.step(record)
            self.control.step_ended(record, ())
            step += 1
        end = RunEnd("stopped", 0.0, steps=step)
        self.writer.end(end)
        self.writer.close()
        self.control.ended(end)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(None, mode="serve") as made:
        yield made


@pytest.fixture
def address(served: Served) -> Address:
    return Address("127.0.0.1", served.port, TOKEN)


def state(served: Served, run: str = "one") -> dict[str, Any]:
    answer = served.http.get(f"/api/runs/{run}")
    got: dict[str, Any] = (answer.json().get("control") or {}) if answer.status_code == 200 else {}
    return got


def drive(served: Served, do: str, run: str = "one", **fields: object) -> httpx.Response:
    return served.http.post(f"/api/runs/{run}/control", json={"do": do, **fields})


def test_a_training_that_connects_is_listed_and_driven(served: Served, address: Address, tmp_path: Path) -> None:
    assert served.http.get("/api/runs").json() == []
    training = Training(tmp_path / "one", address)
    until(lambda: state(served).get("state") == "running")
    assert [row["state"] for row in served.http.get("/api/runs").json()] == ["running"]
    assert drive(served, "step").status_code == 409  # only a paused training can be stepped

    assert drive(served, "pause").status_code == 200
    at = until(lambda: state(served) if state(served)["state"] == "paused" else None)["step"]
    assert drive(served, "step", count=5).status_code == 200
    until(lambda: state(served)["state"] == "paused" and state(served)["step"] == at + 5)
    assert drive(served, "next_node").status_code == 200
    until(lambda: state(served)["node"] == "conv.0")
    assert drive(served, "run_to_node", node="head").status_code == 200
    until(lambda: state(served)["node"] == "head")
    assert drive(served, "continue").status_code == 200
    until(lambda: state(served)["step"] > at + 6)

    assert drive(served, "terminate").status_code == 200
    training.join(LONG)
    assert training.stopped == ["terminated from the page"]
    until(lambda: state(served)["state"] == "ended")
    assert drive(served, "continue").status_code == 409
    assert served.http.get("/api/runs/one").json()["row"]["ended"] == "stopped"


def test_watchpoints_of_a_running_training_are_made_changed_and_removed(
    served: Served, address: Address, tmp_path: Path
) -> None:
    training = Training(tmp_path / "one", address)
    until(lambda: state(served).get("state") == "running")
    base = "/api/runs/one/watchpoints"
    made = served.http.post(base, json={"id": 0, "condition": "TL", "parameters": {"max_gt": 1}}).json()
    assert [one["id"] for one in served.http.get(base).json()] == [made["id"]]
    changed = served.http.put(f"{base}/{made['id']}", json={**made, "parameters": {"max_gt": 2}})
    assert changed.status_code == 200
    assert training.control._desk.watchpoints[0].parameters == {"max_gt": 2.0}
    assert served.http.post(f"{base}/recommended").status_code == 200
    assert len(served.http.get(base).json()) > 5
    assert served.http.delete(base).json() == []
    assert training.control._desk.watchpoints == ()
    drive(served, "terminate")
    training.join(LONG)


def test_a_page_that_looks_on_is_known_to_the_training_and_sees_it_pause(
    served: Served, address: Address, tmp_path: Path
) -> None:
    training = Training(tmp_path / "one", address)
    until(lambda: state(served).get("state") == "running")
    assert training.link.pages == 0
    with served.live("one") as wire:
        until(lambda: training.link.pages == 1)
        drive(served, "pause")
        until(lambda: (news(wire)["control"] or {}).get("state") == "paused")
    until(lambda: training.link.pages == 0)
    with served.live("one") as wire:  # closed and opened again while paused
        assert news(wire)["control"]["state"] == "paused"
    drive(served, "terminate")
    training.join(LONG)


def test_two_trainings_are_driven_apart(served: Served, address: Address, tmp_path: Path) -> None:
    trainings = [Training(tmp_path / name, address) for name in ("one", "two")]
    for name in ("one", "two"):
        until(lambda name=name: state(served, name).get("state") == "running")
    drive(served, "pause", "one")
    until(lambda: state(served, "one")["state"] == "paused")
    assert state(served, "two")["state"] == "running"
    for name in ("one", "two"):
        drive(served, "terminate", name)
    for training in trainings:
        training.join(LONG)
        assert training.stopped


def test_the_ranks_of_a_run_are_paused_together(served: Served, address: Address, tmp_path: Path) -> None:
    ranks = [Training(tmp_path / "one", address, rank=rank, ranks=2) for rank in (0, 1)]
    until(lambda: len(state(served).get("ranks", ())) == 2 and state(served)["state"] == "running")
    drive(served, "pause")
    until(lambda: all(one.control.machine.state == "paused" for one in ranks))
    drive(served, "terminate")
    for one in ranks:
        one.join(LONG)


def test_a_training_that_vanishes_is_lost_and_what_it_wrote_stays(
    served: Served, address: Address, tmp_path: Path
) -> None:
    training = Training(tmp_path / "one", address)
    until(lambda: state(served).get("step", -1) > 2)
    assert training.link._socket is not None
    training.link._closing = True  # gone without a word
    training.link._outbox.clear()
    until(lambda: state(served)["state"] == "lost")
    assert drive(served, "pause").status_code == 409
    assert served.http.get("/api/runs/one/steps").json()["ranks"][0]["step"][:3] == [0, 1, 2]
    training.stopped.append("end of the test")
    training.join(LONG)


def test_what_is_no_training_is_shown_the_door(served: Served, address: Address) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from tensight.control.messages import PATH, TOKEN_HEADER

    for nonsense in (b"nonsense", b"\xc0", b""):
        headers = {TOKEN_HEADER: TOKEN}
        with connect(f"ws://{address.netloc}{PATH}", additional_headers=headers, proxy=None) as wire:
            wire.send(nonsense)
            with pytest.raises(ConnectionClosed):
                wire.recv(LONG)
    assert served.http.get("/api/runs").json() == []


def test_a_launched_server_answers_at_once_and_keeps_its_token_to_itself(tmp_path: Path) -> None:
    address = launch.start(tmp_path / "run")
    process = launch.process_of(address)
    try:
        with httpx.Client(base_url=f"http://{address.netloc}", timeout=LONG, trust_env=False) as page:
            assert page.get("/api/runs").status_code == 401
            assert page.get(address.url).status_code == 303
            assert page.get("/api/runs/run").status_code == 422  # nothing is recorded yet
            assert page.get("/api/welcome").json()["run"] == "run"
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes() + Path(f"/proc/{process.pid}/environ").read_bytes()
        assert address.token.encode() not in command
        with socket.create_connection((address.host, address.port), LONG) as wire:  # what a server complains of
            wire.sendall(f"nonsense {address.url}\r\n\r\n".encode())
            wire.recv(1000)
    finally:
        launch.stop(address)
    assert process.poll() is not None
    assert address.token.encode() not in (tmp_path / "run" / launch.LOG).read_bytes()
    assert len(address.token) >= 43  # 256 bits, six in each character


def test_a_launched_server_goes_when_its_training_has_gone(tmp_path: Path) -> None:
    address = launch.start(tmp_path / "run")
    process = launch.process_of(address)
    httpx.get(f"http://{address.netloc}/", timeout=LONG, trust_env=False)
    assert process.stdin is not None
    process.stdin.close()
    try:
        assert process.wait(LONG) == 0
    except subprocess.TimeoutExpired:
        pytest.fail("it stayed")
    finally:
        launch.stop(address)


def test_a_taken_port_is_refused_by_name_and_passed_over_otherwise() -> None:
    with bind("127.0.0.1", None) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)):
            bind("127.0.0.1", port)
        with bind("127.0.0.1", None) as second:
            assert second.getsockname()[1] != port
