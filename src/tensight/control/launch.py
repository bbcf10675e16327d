"""Starts the server in a process of its own, beside a training.

The socket is bound here, so the address is known at once and the training waits for nothing; the token goes through a
pipe and never stands in a command line. The pipe stays open while the training lives: its end tells the server.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

from tensight import children
from tensight.control.address import BESIDE, Address, new_token
from tensight.errors import UsageError

FIRST_PORT = 8765
TRIES = 100
LOG = "server.log"

_started: dict[int, subprocess.Popen[bytes]] = {}


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket on `port`, or on the first free port from 8765."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    trouble = "none is free"
    for candidate in range(FIRST_PORT, FIRST_PORT + TRIES) if port is None else (port,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)
        except OSError as error:
            listening.close()
            if port is not None:
                raise UsageError(f"port {port} of {host} cannot be had: {error.strerror}; choose another") from None
            trouble = error.strerror or str(error)
            continue
        return listening
    last = FIRST_PORT + TRIES - 1
    raise UsageError(f"no port from {FIRST_PORT} to {last} of {host} can be had: {trouble}; choose one by --port")


def check_certificate(tls_cert: str | None, tls_key: str | None) -> None:
    """A certificate that cannot be used is wrong use, and is said before anything is served."""
    if tls_cert is None:
        if tls_key is not None:
            raise UsageError("--tls-key is given without --tls-cert: both are needed")
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls_cert, tls_key)
    except ssl.SSLError:
        key = f"--tls-key {tls_key}" if tls_key else "the same file, for want of --tls-key"
        raise UsageError(
            f"the certificate {tls_cert} cannot be used: it must be in PEM form, and its key, without a password,"
            f" in {key}"
        ) from None
    except OSError as error:
        raise UsageError(f"the certificate {tls_cert} cannot be used: {error.strerror or error}") from None


def unanswered(where: Address, seconds: float = 1.0) -> str:
    """Why nobody listens at an address; '' when somebody does."""
    try:
        socket.create_connection((where.host, where.port), seconds).close()
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def warning_of(host: str, tls_cert: str | None) -> str:
    """What is said of a page that others can reach; '' of one on this machine alone."""
    if is_loopback(host):
        return ""
    said = "warning: whoever can reach this machine can reach the page; its token is all that protects it"
    return said if tls_cert else f"{said}, and is sent in the clear without --tls-cert and --tls-key"


def address_of(listening: socket.socket, host: str, token: str, *, tls_cert: str | None = None) -> Address:
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "::1" if host == "::" else host
    return Address(shown, listening.getsockname()[1], token, tls_cert is not None, tls_cert or "")


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def start(
    run_dir: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
) -> Address:
    """Serve the page of one run in a new process, and say where. UsageError when the port cannot be had."""
    check_certificate(tls_cert, tls_key)
    listening = bind(host, port)
    address = address_of(listening, host, new_token(), tls_cert=tls_cert)
    run_dir = run_dir.resolve()
    environment = {**os.environ, "TENSIGHT": "off"}  # the server itself is not to be watched
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with open(run_dir / LOG, "ab") as log:
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
        children.hide(process.pid)
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


def tidy(run_dir: Path) -> None:
    """Take away what a server has left in the run's folder: its address, and its log if nothing stands in it."""
    with contextlib.suppress(OSError):
        (run_dir / BESIDE).unlink()
    with contextlib.suppress(OSError):
        log = run_dir / LOG
        if log.stat().st_size == 0:
            log.unlink()


def process_of(address: Address) -> subprocess.Popen[bytes]:
    """The server's process, to look after it."""
    return _started[address.port]


def _let_go_in_child() -> None:
    for process in _started.values():
        if process.stdin is not None:
            process.stdin.close()


os.register_at_fork(after_in_child=_let_go_in_child)
