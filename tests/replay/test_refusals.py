"""Each reason for which a bad step is not run again in a copy, and what is said of it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from tensight.frameworks.torch.replay_rewinds import TorchRewinds
from tensight.replay import copying
from tests.replay import programs
from tests.replay.jobs import watched


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script: what the test's own process runs beside the main thread is not looked at."""
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])


def test_nothing_forbids_it_in_a_plain_process() -> None:
    code = "from tensight.replay import copying; assert copying.hindrance() == '', copying.hindrance()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_system_that_cannot_fork(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert copying.hindrance() == "a copy of the process needs Linux"


def test_a_training_in_another_thread() -> None:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(copying.hindrance()))
    thread.start()
    thread.join()
    assert said == ["the training does not run in the main thread"]


def test_threads_of_the_user_are_named() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="prefetcher")
    thread.start()
    try:
        assert "prefetcher" in copying.hindrance()
    finally:
        stop.set()
        thread.join()


def test_threads_that_compile_are_idle_only_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay when the compiling is done; a copy runs eagerly and never asks them."""
    stop = threading.Event()
    with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(1) as own:
        pool.submit(int).result()
        own.submit(int).result()  # the user's: its threads may be needed in the step
        maker = functools.lru_cache(1)(lambda: pool)
        compiler = types.SimpleNamespace(AsyncCompile=types.SimpleNamespace(pool=maker))
        monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", compiler)
        assert not TorchRewinds().idle_threads(), "no pool was made yet, and none is made by asking"
        maker()
        idle = _soon(lambda: TorchRewinds().idle_threads())
        assert set(idle) == pool._threads
        threads = [threading.main_thread(), *pool._threads, *own._threads]
        monkeypatch.setattr(threading, "enumerate", lambda: threads)
        (mine,) = own._threads
        assert copying.hindrance(idle) == f"the script runs threads of its own ({mine.name})"
        busy = pool.submit(stop.wait)
        try:
            assert _soon(lambda: set(TorchRewinds().idle_threads()) != set(idle))
        finally:
            stop.set()
            busy.result()


def _soon(ask: Callable[[], Any]) -> Any:
    """A thread takes a moment to come to where it waits."""
    for _ in range(500):
        answer = ask()
        if answer:
            return answer
        time.sleep(0.01)
    return ask()


def test_memory_that_is_short(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "memory", lambda: (1 << 30, 8 << 30))
    assert copying.hindrance() == "memory is short: 1024 MB are free, the training holds 8192 MB"


def test_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert TorchRewinds().hindrance().startswith("an accelerator is in use")


def test_a_process_group(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert TorchRewinds().hindrance().startswith("the process is part of a group")
    finally:
        torch.distributed.destroy_process_group()


def test_weights_in_shared_memory_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "set_stance", lambda stance: None)  # it would hold for the tests that follow
    network = torch.nn.Linear(2, 2).share_memory()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    threads, save, saved = torch.get_num_threads(), torch.save, torch.serialization.save
    try:
        assert TorchRewinds().enter_copy().startswith("the weights are in shared memory")
    finally:
        torch.set_num_threads(threads)
        torch.save, torch.serialization.save = save, saved
    assert optimizer.param_groups


def test_a_dispatch_mode_of_the_user_forbids_a_look_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(counters, "frames", {})

    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return function(*args, **(kwargs or {}))

    with Own():
        assert TorchRewinds().unwatchable() == "the script runs inside a dispatch mode of its own"


def test_compiled_code_forbids_a_look_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(counters, "frames", {"total": 1})
    assert TorchRewinds().unwatchable() == "compiled code shows no operators"


def test_a_memory_limit_below_a_copy_of_the_state_is_said(tmp_path: Path) -> None:
    report = watched(tmp_path, programs.PLAIN, "--memory-limit", "100")
    (finding,) = report["findings"]
    assert report["same"], report["printed"]
    assert "no rewind: a copy of the state takes" in report["printed"]
    assert finding["replay"] == "not possible"
    assert "more than the memory limit of 100" in finding["evidence"][-1]["value"]
    assert "--steps 6" in finding["fix"][0]


def test_without_rewind_nothing_is_said_of_it(tmp_path: Path) -> None:
    report = watched(tmp_path, programs.PLAIN, "--no-rewind")
    assert report["same"], report["printed"]
    assert report["findings"][0]["replay"] == ""
    assert "--rewind" in report["findings"][0]["fix"][0]
