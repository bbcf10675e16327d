"""Workers: results in order, errors in words, and nobody left behind."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tensight.errors import DamagedError, MissingExtra, TensightError, UsageError
from tensight.workers import Workers, workers_on
from tensight.workers.processes import Processes


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with workers_on("local", 2) as found:
        yield found


def slow_when_even(number: int) -> int:
    if number % 2 == 0:
        time.sleep(0.01)
    return number * number


def damaged(number: int) -> int:
    raise DamagedError(f"file {number} is cut off: copy it again")


def lacking(number: int) -> int:
    raise MissingExtra("ray", "ray", "this")


def mistaken(number: int) -> int:
    return [number][number]


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def own_pid(_: int) -> int:
    return os.getpid()


def test_results_come_in_the_order_of_the_tasks(two: Workers) -> None:
    assert list(two.map(slow_when_even, range(20))) == [number * number for number in range(20)]


def test_the_work_is_done_by_other_processes(two: Workers) -> None:
    assert os.getpid() not in set(two.map(own_pid, range(6)))


def test_only_a_few_tasks_are_taken_ahead(two: Workers) -> None:
    taken = itertools.count()
    results = two.map(slow_when_even, ((next(taken), 1)[1] for _ in range(1000)))
    next(results)
    assert next(taken) <= 2 * (2 * two.count + 1)
    results.close()  # type: ignore[attr-defined]


def test_an_error_on_purpose_keeps_its_kind_and_its_sentence(two: Workers) -> None:
    with pytest.raises(DamagedError, match="file 1 is cut off: copy it again"):
        list(two.map(damaged, [1]))
    with pytest.raises(TensightError, match=r"this needs ray: pip install 'tensight\[ray\]'"):
        list(two.map(lacking, [1]))


def test_a_mistake_in_a_worker_comes_with_its_trace(two: Workers) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)IndexError.*in mistaken"):
        list(two.map(mistaken, [1]))


def test_a_path_that_workers_do_not_see_is_said(two: Workers, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be seen from a worker"):
        list(two.map(abs, [1], paths=[tmp_path / "not-there"]))


def test_every_task_that_is_done_is_told(two: Workers) -> None:
    told: list[tuple[int, int | None]] = []
    two.report = lambda done, total: told.append((done, total))
    try:
        list(two.map(abs, [1, 2, 3]))
    finally:
        two.report = None
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_killed_worker_is_one_sentence() -> None:
    with (
        pytest.raises(TensightError, match="was killed, most likely for want of memory"),
        workers_on("local", 1) as one,
    ):
        list(one.map(killed, [1]))


def test_no_process_is_left_when_work_is_broken_off() -> None:
    pids: list[int] = []

    def broken_off() -> None:
        with Processes(1) as one:
            pids.extend(one.map(own_pid, [0]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert not psutil.pid_exists(pids[0])


def test_this_process_alone_is_the_default() -> None:
    with workers_on() as alone:
        assert list(alone.map(own_pid, [0])) == [os.getpid()]
        with pytest.raises(IndexError):
            list(alone.map(mistaken, [1]))


@pytest.mark.parametrize("place", ["spark", "http://there:1", "", "rayon"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="give local, ray or ray://host:port"):
        workers_on(place)


def test_no_workers_are_no_number_of_workers() -> None:
    with pytest.raises(UsageError, match="jobs is 0"):
        workers_on("local", 0)


def test_a_missing_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"work on ray needs ray: pip install 'tensight\[ray\]'"):
        workers_on("ray")


class Head:
    """As much of Ray as joining a cluster takes, at a head that fails a number of clients first."""

    exceptions = SimpleNamespace(RayError=ArithmeticError)

    def __init__(self, error: str, fails: int) -> None:
        self.error, self.fails = error, fails
        self.asked = 0

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **_: object) -> None:
        self.asked += 1
        if self.asked <= self.fails:
            raise ConnectionAbortedError(self.error)

    def shutdown(self) -> None:
        return

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, function: Callable[[object], object]) -> object:
        return SimpleNamespace(remote=function)

    def get(self, value: object) -> object:
        return value


BUSY = "Initialization failure from server: RuntimeError: Proxy failed to Connect to backend! Check `x.err`"


def at_a_head(monkeypatch: pytest.MonkeyPatch, head: Head) -> str:
    monkeypatch.setitem(__import__("sys").modules, "ray", head)
    monkeypatch.setattr("tensight.workers.on_ray._reach", lambda address: None)
    return "ray://head:10001"


def test_a_head_too_busy_for_a_client_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(BUSY, fails=2)
    with workers_on(at_a_head(monkeypatch, head)) as workers:
        assert list(workers.map(abs, [-1, 2])) == [1, 2]
    assert head.asked == 3


def test_a_head_that_stays_too_busy_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"too busy to serve a client in time: .* RAY_CLIENT_SERVER_CHECK_CHANNEL"):
        workers_on(at_a_head(monkeypatch, Head(BUSY, fails=9)))


def test_another_error_of_a_head_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head("the versions differ", fails=9)
    with pytest.raises(UsageError, match="no Ray cluster could be reached at ray://head:10001: the versions differ"):
        workers_on(at_a_head(monkeypatch, head))
    assert head.asked == 1


def test_an_address_where_nobody_listens_is_said_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head("", fails=0)
    monkeypatch.setitem(__import__("sys").modules, "ray", head)
    with closing(socket.socket()) as one:  # bound and not listening: nobody can be there
        one.bind(("127.0.0.1", 0))
        with pytest.raises(UsageError, match="no Ray cluster could be reached"):
            workers_on(f"ray://127.0.0.1:{one.getsockname()[1]}")
    assert head.asked == 0
