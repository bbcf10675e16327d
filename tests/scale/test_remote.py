"""Runs that live elsewhere: read through a copy, written by a copy that follows."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import tensight
from tensight.compare import compare
from tensight.control import launch
from tensight.control.address import Address, leave_beside
from tensight.errors import MissingExtra, NameNotFound, RunError, UsageError
from tensight.runs import open_run
from tensight.store import remote
from tensight.store.mirror import Mirror
from tests.runs.sample import STEPS, record_run, step
from tests.scale import recordings


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def place() -> Iterator[str]:
    """An address in memory that is empty, and is again afterwards."""
    found = f"memory://{uuid.uuid4().hex}/runs"
    yield found
    system = fsspec.filesystem("memory")
    root = found.removeprefix("memory:/").removesuffix("/runs")
    if system.exists(root):
        system.rm(root, recursive=True)


def put(folder: Path, address: str) -> None:
    Mirror(folder, address).copy()


def test_a_run_is_opened_by_its_address(place: str, tmp_path: Path) -> None:
    here = recordings.run(tmp_path / "run")
    put(here, f"{place}/run")
    there, known = tensight.open(f"{place}/run"), open_run(here)
    assert (there.name, there.step_count, list(there.readers)) == ("run", known.step_count, [0, 1])
    assert list(there.check("TO on *")) == list(known.check("TO on *")) != []
    assert compare(f"{place}/run", here).verdict == "identical"


def test_the_token_of_a_server_does_not_leave_this_machine(place: str, tmp_path: Path) -> None:
    here = recordings.run(tmp_path / "run", 1)
    leave_beside(Address("127.0.0.1", 8765, "secret"), here)
    (here / launch.LOG).write_text("")
    put(here, f"{place}/run")
    there = fsspec.filesystem("memory").find(place.removeprefix("memory:/"))
    assert there
    assert not [name for name in there if "/server." in name]


def test_kept_tensors_are_fetched_when_they_are_asked_for(place: str, tmp_path: Path, cache: Path) -> None:
    here = recordings.run(tmp_path / "run", 1)
    put(here, f"{place}/run")
    there = open_run(f"{place}/run")
    assert not list(cache.rglob("*.safetensors"))
    values = there.tensor("fc2", "output", step=1).numpy()
    assert np.array_equal(values, open_run(here).tensor("fc2", "output", step=1).numpy())
    assert [path.name for path in cache.rglob("*.safetensors")] == ["step-1.safetensors"]


def test_a_run_that_grows_is_followed(place: str, tmp_path: Path) -> None:
    writer = record_run(tmp_path / "run", end=False)
    mirror = Mirror(tmp_path / "run", f"{place}/run")
    mirror.copy()
    there = open_run(f"{place}/run")
    assert there.step_count == STEPS
    writer.step(step(STEPS))
    writer.close()
    assert mirror.copy() >= 1
    assert mirror.copy() == 0
    remote.pull(f"{place}/run")
    assert there.refresh()
    assert there.step_count == STEPS + 1


def test_only_what_has_changed_is_fetched_again(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(recordings.run(tmp_path / "run", 1), f"{place}/run")
    remote.pull(f"{place}/run")
    fetched: list[Any] = []
    monkeypatch.setattr(remote, "_fetch", lambda *given: fetched.append(given))
    remote.pull(f"{place}/run")
    assert fetched == []


def test_a_folder_of_runs_is_fetched_whole(place: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(recordings.run(tmp_path / name, 1), f"{place}/{name}")
    folder = remote.local(place)
    assert sorted(child.name for child in folder.iterdir() if child.is_dir()) == ["a", "b"]


def test_nothing_leads_out_of_the_copy(place: str, tmp_path: Path, cache: Path) -> None:
    put(recordings.run(tmp_path / "run", 1), f"{place}/run")
    system, root = remote.file_system(f"{place}/run")
    for name in ("rank-0/..\\..\\evil.log", "rank-0/.source", "rank-0/c:evil", "notes.txt", "deep/er/rank-0/x"):
        system.pipe_file(f"{root}/{name}", b"evil")
    folder = remote.pull(f"{place}/run")
    assert {path.relative_to(folder).parts[0] for path in folder.rglob("*")} == {"rank-0", ".source"}
    assert not [path for path in cache.rglob("*") if path.is_file() and path.read_bytes() == b"evil"]


def test_what_is_not_there_is_one_sentence(place: str) -> None:
    with pytest.raises(NameNotFound, match=r"at memory://.*/nothing"):
        open_run(f"{place}/nothing")
    with pytest.raises(UsageError, match="nowhere://x/y cannot be reached from here"):
        open_run("nowhere://x/y")


def test_a_missing_fsspec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"needs fsspec: pip install 'tensight\[remote\]'"):
        open_run("memory://x/y")


@pytest.mark.parametrize("word", ["runs/a", "/tmp/a", "a:b", "./s3", "c:/runs/a"])
def test_a_path_stays_a_path(word: str) -> None:
    assert remote.address(word) is None


def test_a_folder_that_looks_like_an_address_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recordings.run(tmp_path / "s3:" / "bucket", 1)
    assert open_run(Path("s3:/bucket")).step_count == 4


def test_a_place_that_holds_a_run_is_not_written_over(place: str, tmp_path: Path) -> None:
    put(recordings.run(tmp_path / "run", 1), f"{place}/run")
    with pytest.raises(RunError, match="holds a run already"):
        Mirror(tmp_path / "run", f"{place}/run").check()
    Mirror(tmp_path / "run", f"{place}/run", ["rank-1"]).check()  # another rank of the same run


def test_a_run_is_read_from_a_web_server(tmp_path: Path) -> None:
    recordings.run(tmp_path / "site" / "run", 1)
    handler = functools.partial(Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            there = open_run(f"http://127.0.0.1:{server.server_port}/run")
            assert there.tensor("fc0", "output", step=0).numpy().shape == (400,)
        finally:
            server.shutdown()
            thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_the_page_shows_a_run_by_its_address(tmp_path: Path) -> None:
    recordings.run(tmp_path / "bucket" / "run", 1)
    words = [sys.executable, "-m", "tensight", "view", f"file://{tmp_path}/bucket/run", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(200, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            (address,) = [word for word in process.stdout.readline().split() if word.startswith("http")]
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert answer.status == 200
            assert "/run/run?" in address
        finally:
            watchdog.cancel()
            process.terminate()


SCRIPT = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).mean().backward()
    optimizer.step()
"""


def test_a_training_writes_to_where_its_run_shall_live(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "bucket").mkdir()
    address = f"file://{tmp_path}/bucket/run"
    words = [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", address, "train.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=250, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert f"copied to {address}" in done.stderr
    assert open_run(address).step_count == 6
    assert open_run(address).ended == "finished"
    again = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert again.returncode == 2
    assert again.stderr.strip().endswith("holds a run already: name another place or remove it")
