"""Where a server is, and how a training of the same user learns its token."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from tensight.errors import UNDECODABLE, UsageError


class Address(msgspec.Struct, frozen=True):
    """Host, port and token of a server.

    >>> Address("127.0.0.1", 8765, "secret").url
    'http://127.0.0.1:8765/?token=secret'
    >>> Address("::1", 8765, "").netloc
    '[::1]:8765'
    """

    host: str
    port: int
    token: str
    tls: bool = False
    trust: str = ""  # file of the certificate that the server shows; '' means what the machine trusts

    @property
    def netloc(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """What is printed: opens the page and hands it the token."""
        return self.page("/")

    def page(self, path: str) -> str:
        return f"{self._scheme}://{self.netloc}{path}?token={self.token}"

    def at(self, run: str, step: int | None = None, node: str | None = None) -> str:
        """Where the page shows a run, a step of it, a node at that step; without the token, so it can be shared.

        >>> Address("127.0.0.1", 8765, "secret").at("lenet-1", 153, "head.scale")
        'http://127.0.0.1:8765/run/lenet-1/step/153/node/head.scale'
        """
        path = f"/run/{quote(run, safe='')}" + (f"/step/{step}" if step is not None else "")
        if node is not None:  # the root module has no name: an empty part of an address would be lost
            path += f"/node/{quote('~' + node if not node or node.startswith('~') else node, safe='')}"
        return f"{self._scheme}://{self.netloc}{path}"

    @property
    def _scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def tunnel(self) -> str:
        """The line that brings the page to another machine."""
        return f"ssh -L {self.port}:127.0.0.1:{self.port} {os.uname().nodename}"


def new_token() -> str:
    """What a page or a training must show: 256 bits of the system's randomness.

    >>> len(new_token()), new_token() == new_token()
    (43, False)
    """
    return secrets.token_urlsafe(32)


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where servers of this user leave their tokens, readable by nobody else."""
    base = environ.get("TENSIGHT_STATE") or environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tensight"


BESIDE = "server.json"


def leave_beside(address: Address, run_dir: Path) -> Path:
    """Leave a server's address in the run's own folder, for the other ranks."""
    return _write(run_dir / BESIDE, address)


def find_beside(run_dir: Path) -> Address | None:
    """The address that was left in a run's folder, if one was."""
    try:
        return msgspec.json.decode((run_dir / BESIDE).read_bytes(), type=Address)
    except (OSError, *UNDECODABLE):
        return None


def leave(address: Address, environ: Mapping[str, str] = os.environ) -> Path:
    """Leave a server's token for trainings of the same user on this machine."""
    folder = state_folder(environ)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _write(folder / f"server-{address.port}.json", address)


def _write(path: Path, address: Address) -> Path:
    """A file that only this user can read, there whole or not at all."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(address))
    os.replace(new, path)
    return path


def find(text: str, environ: Mapping[str, str] = os.environ) -> Address:
    """The address meant by HOST:PORT; its token is from TENSIGHT_TOKEN, or was left by a server of the same user.

    TENSIGHT_TLS_CERT names the certificate that a server on another machine shows.

    >>> find("localhost:9000", {"TENSIGHT_TOKEN": "t"})
    Address(host='localhost', port=9000, token='t', tls=False, trust='')
    >>> find("head:9000", {"TENSIGHT_TOKEN": "t", "TENSIGHT_TLS_CERT": "cert.pem"})
    Address(host='head', port=9000, token='t', tls=True, trust='cert.pem')
    """
    host, _, port_text = text.rpartition(":")
    if not host or not port_text.isdecimal() or not 0 < int(port_text) < 65536:
        raise UsageError(f"a server is given as HOST:PORT, for example 127.0.0.1:8765, not {text!r}")
    host = host.strip("[]")
    port = int(port_text)
    try:
        left = msgspec.json.decode((state_folder(environ) / f"server-{port}.json").read_bytes(), type=Address)
    except (OSError, *UNDECODABLE):
        left = Address(host, port, "")
    trust = environ.get("TENSIGHT_TLS_CERT", "")
    token = environ.get("TENSIGHT_TOKEN") or left.token
    return Address(host, port, token, left.tls or bool(trust), trust or left.trust)


def from_environment(environ: Mapping[str, str] = os.environ) -> str | None:
    """HOST:PORT of the server that the environment asks for: ours, or the variables of MindSpore's debugger.

    >>> from_environment({"ENABLE_MS_DEBUGGER": "1", "MS_DEBUGGER_HOST": "localhost", "MS_DEBUGGER_PORT": "50051"})
    'localhost:50051'
    >>> from_environment({}) is None
    True
    """
    if environ.get("TENSIGHT_SERVER"):
        return environ["TENSIGHT_SERVER"]
    if environ.get("ENABLE_MS_DEBUGGER", "").lower() in ("1", "true"):
        return f"{environ.get('MS_DEBUGGER_HOST', '127.0.0.1')}:{environ.get('MS_DEBUGGER_PORT', '50051')}"
    return None
