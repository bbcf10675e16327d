"""Starts the server in a process of its own, beside a training.

The socket is bound here, so the address is known at once and the training waits for nothing; the token goes through a
pipe and never stands in a command line. The pipe stays open while the training lives: its end tells the server.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

from tensight.control.address import Address
from tensight.server.running import address_of, bind

_started: dict[int, subprocess.Popen[bytes]] = {}


def start(
    run_dir: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
) -> Address:
    """Serve the page of one run in a new process, and say where. UsageError when the port cannot be had."""
    listening = bind(host, port)
    address = address_of(listening, host, secrets.token_urlsafe(24), tls=tls_cert is not None)
    run_dir = run_dir.resolve()
    environment = {**os.environ, "TENSIGHT": "off"}  # the server itself is not to be watched
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with open(run_dir / "server.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tensight.server"]
                if sys.version_info >= (3, 11)
                else [sys.executable, "-m", "tensight.server"],
                bufsize=0,  # no lock that a fork could leave held
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listening.fileno()],
                start_new_session=True,  # Ctrl-C is meant for the training
                env=environment,
            )
        assert process.stdin is not None
        order = {
            "descriptor": listening.fileno(),
            "run_dir": str(run_dir),
            "host": host,
            "port": address.port,
            "token": address.token,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
        }
        process.stdin.write(json.dumps(order).encode() + b"\n")
    finally:
        listening.close()
    _started[address.port] = process
    return address


def stop(address: Address, seconds: float = 10.0) -> None:
    """End a server that `start` has started, whoever still looks."""
    process = _started.pop(address.port, None)
    if process is None:
        return
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def process_of(address: Address) -> subprocess.Popen[bytes]:
    """The server's process, to look after it."""
    return _started[address.port]


def _let_go_in_child() -> None:
    for process in _started.values():
        if process.stdin is not None:
            process.stdin.close()


os.register_at_fork(after_in_child=_let_go_in_child)
