"""A child reads a stranger's checkpoint first: what fills memory, hangs or dies there is refused here in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import save_file

from tensight.compare import checkpoints
from tensight.errors import CheckpointError
from tensight.workers import limited

GREEDY = 256 << 20


def fine(path: Path) -> object:
    return path.read_bytes()


def refuses(path: Path) -> object:
    raise CheckpointError(f"{path} is no checkpoint")


def fills_memory(path: Path) -> object:
    return bytearray(GREEDY * 4)


def hangs(path: Path) -> object:
    time.sleep(600)
    return None


def works_for_ever(path: Path) -> object:
    while True:
        pass


def dies(path: Path) -> object:
    os.abort()


def fails(path: Path) -> object:
    raise KeyError("x")


@pytest.fixture(params=["copy", "fresh interpreter"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    # a fresh interpreter where threads are at work: a copy could hold their locks for ever
    monkeypatch.setattr(threading, "active_count", lambda: 1 if request.param == "copy" else 2)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return str(request.param)


@pytest.mark.parametrize(
    ("read", "sentence", "seconds"),
    [
        (refuses, "file is no checkpoint", 60.0),
        (fills_memory, "takes more memory than a file of its size needs", 60.0),
        (hangs, "takes more than 3 seconds", 3.0),
        (works_for_ever, "takes more than 3 seconds", 3.0),
        (dies, "it breaks what reads it", 60.0),
        (fails, "it breaks what reads it", 60.0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_becomes_of_the_child_is_a_sentence(read, sentence: str, seconds: float, way: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(CheckpointError, match=sentence):
        limited.try_reading(read, path, memory=GREEDY, seconds=seconds)


def test_an_honest_file_passes_and_nothing_is_left_behind(way: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    before = sorted(os.listdir("/proc/self/fd"))
    children = {child.pid for child in psutil.Process().children()}  # a test before may have some of its own
    for _ in range(3):
        limited.try_reading(fine, path, memory=GREEDY)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert {child.pid for child in psutil.Process().children()} <= children


def test_a_process_with_thousands_of_open_files_reads_as_others_do(
    way: str, tmp_path: Path, many_open_files: None
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(CheckpointError, match="file is no checkpoint"):
        limited.try_reading(refuses, path, memory=GREEDY)


def test_memory_grows_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(GREEDY * 2)  # a hole: it takes no room
    limited.try_reading(fills_memory, path, memory=GREEDY)


def test_checkpoints_of_others_are_read_by_a_child_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"w": np.ones(3, np.float32)}, path)
    tried = []
    monkeypatch.setattr(checkpoints, "try_reading", lambda read, path: tried.append(path))
    assert list(checkpoints.read_foreign(path).entries) == ["w"]
    from tensight.compare import compare

    compare(path, path)
    assert tried == [path] * 3


def test_a_process_that_only_reads_leaves_half_of_the_memory_to_others() -> None:
    code = (
        "import resource, sys; from tensight.workers.limited import limit_own_memory; limit_own_memory()\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
        "try:\n    bytearray(resource.getrlimit(resource.RLIMIT_DATA)[0])\nexcept MemoryError:\n    print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=True)
    limit, refused = done.stdout.split()
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(limit) == max(whole // 2, 2 << 30)
    assert refused == "refused"
