"""`--on ray` and `--on ray://host:port` give what one process gives, on real clusters of two workers."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.scale import recordings

POINT = "TR(range_percentage_gt=5, range_start_inclusive=0, range_end_inclusive=0.5) on *"
LIMIT = 600
# Ray's own limits are for quick machines
PATIENT = {
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_gcs_rpc_server_connect_timeout_s": "60",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300",
}


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**own, **PATIENT, "RAY_USAGE_STATS_ENABLED": "0", **more}


def command(*arguments: object, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tensight", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(**more),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(1500)
def test_a_cluster_that_is_started_for_the_work_finds_the_same(tmp_path: Path) -> None:
    dump = recordings.dump(tmp_path / "dump")
    alone = command("check", dump, "--watch", POINT, TENSIGHT_CACHE=str(tmp_path / "one"))
    home = tmp_path / "home"
    home.mkdir()
    own = {"TENSIGHT_CACHE": str(tmp_path / "two"), "HOME": str(home)}
    shared = command("check", dump, "--watch", POINT, "--on", "ray", "--jobs", 2, **own)
    assert alone == shared
    assert '"TR"' in shared
    assert not (home / ".ray").exists()  # no token is left behind


class Cluster(NamedTuple):
    port: int
    client: int
    token: str


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """What `ray start --head` starts: two workers and a server for clients, behind a token of their own."""
    found = Cluster(free_port(20_000), free_port(24_000), secrets.token_hex(32))
    own = environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=found.token)
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:  # sockets need short paths
        start = ["ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2", "--include-dashboard=false"]
        start += ["--node-ip-address=127.0.0.1", f"--port={found.port}", f"--temp-dir={folder}"]
        start += [f"--ray-client-server-port={found.client}"]
        log = Path(folder) / "start.log"
        with running(start, log, own):
            wait_for(lambda: "Ray runtime started" in log.read_text() and listens(found.client), log)
            yield found


@contextmanager
def running(words: list[str], log: Path, own: dict[str, str]) -> Iterator[None]:
    with log.open("a") as file:
        process = subprocess.Popen([sys.executable, "-m", *words], stdout=file, stderr=subprocess.STDOUT, env=own)
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def wait_for(there: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.5)


def free_port(start: int) -> int:
    for port in range(start + os.getpid() % 1000, start + 4000):
        with closing(socket.socket()) as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def listens(port: int) -> bool:
    with closing(socket.socket()) as one:
        one.settimeout(5)
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.timeout(1800)
def test_a_cluster_that_runs_finds_the_same(cluster: Cluster, tmp_path: Path) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": cluster.token, "TENSIGHT_CACHE": str(tmp_path / "cache")}
    a, b = recordings.run(tmp_path / "a"), recordings.run(tmp_path / "b", shift=0.25)
    alone = command("compare", a, b)
    assert command("compare", a, b, "--on", f"ray://127.0.0.1:{cluster.client}", **token) == alone
    assert command("compare", a, b, "--on", "ray", RAY_ADDRESS=f"127.0.0.1:{cluster.port}", **token) == alone
