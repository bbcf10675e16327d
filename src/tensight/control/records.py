"""Records on their way to a server that does not see the folder of the run."""

from __future__ import annotations

import http.client
import os
import ssl
from typing import BinaryIO
from urllib.parse import quote

import msgspec

from tensight.control.address import Address
from tensight.control.messages import TOKEN_HEADER
from tensight.errors import UNDECODABLE, ControlError

RECORDS = "/api/training/records"
PIECE = 1 << 22
"""Bytes of one request."""

_PATIENCE = 60.0  # seconds for one answer
_GROWING = ".log"  # files that are only ever written at their end


class Offer(msgspec.Struct, frozen=True):
    """A rank says where it writes: does the server see that, or are the records to be sent?

    The rank has left a file of the name `.MARK` there. `group` is the same for all ranks of one launch.
    """

    name: str
    run_dir: str
    mark: str
    rank: int = 0
    ranks: int = 1
    group: str = ""


class Granted(msgspec.Struct, frozen=True):
    """Where the server keeps what it is sent, and by which key; both are '' where it sees the folder itself."""

    key: str = ""
    folder: str = ""


class Records:
    """A rank's files at a server, as a file system that is written only."""

    def __init__(self, address: Address, key: str = "") -> None:
        self._address = address
        self._key = key
        self._sent: dict[str, int] = {}

    def offer(self, offer: Offer) -> Granted:
        status, answer = self._ask("POST", RECORDS, msgspec.json.encode(offer), "application/json")
        if status != 200:
            raise ControlError(f"the server at {self._address.netloc} takes no records: {_words(answer)}")
        try:
            return msgspec.json.decode(answer, type=Granted)
        except UNDECODABLE as error:
            raise ControlError(f"the server at {self._address.netloc} gave no answer that can be read") from error

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        """The server makes its folders itself."""

    def exists(self, path: str) -> bool:
        return path.lstrip("/") in self._sent

    def put_file(self, path: str, target: str) -> None:
        """Send a file; of one that grows, what has come since the last time."""
        name = target.lstrip("/")
        begin = self._sent.get(name, 0) if name.endswith(_GROWING) else 0
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size  # what comes meanwhile is sent the next time
            if size < begin or not self._pieces(file, name, begin, size):
                self._pieces(file, name, 0, size)
        self._sent[name] = size

    def rm_file(self, path: str) -> None:
        name = path.lstrip("/")
        self._checked(*self._ask("DELETE", self._path(name)))
        self._sent.pop(name, None)

    def _pieces(self, file: BinaryIO, name: str, begin: int, size: int) -> bool:
        """Send what lies between; False when the server has another beginning than we think."""
        at = begin
        while True:
            piece = os.pread(file.fileno(), min(PIECE, size - at), at)
            last = at + len(piece) >= size or not piece
            status, answer = self._ask("PUT", f"{self._path(name)}?at={at}&last={int(last)}", piece)
            if status == 409 and begin:
                return False
            self._checked(status, answer)
            at += len(piece)
            if last:
                return True

    def _path(self, name: str) -> str:
        return f"{RECORDS}/{quote(self._key, safe='')}/{quote(name)}"

    def _checked(self, status: int, answer: bytes) -> None:
        if status != 204:
            raise ControlError(f"the server at {self._address.netloc} has not taken a file: {_words(answer)}")

    def _ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/octet-stream"
    ) -> tuple[int, bytes]:
        address = self._address
        wire: http.client.HTTPConnection
        if address.tls:
            context = ssl.create_default_context(cafile=address.trust or None)
            context.check_hostname = not address.trust  # as for the link: a file is known by itself
            wire = http.client.HTTPSConnection(address.host, address.port, timeout=_PATIENCE, context=context)
        else:
            wire = http.client.HTTPConnection(address.host, address.port, timeout=_PATIENCE)
        try:
            wire.request(method, path, body, {TOKEN_HEADER: address.token, "Content-Type": kind})
            answer = wire.getresponse()
            return answer.status, answer.read(1 << 16)
        except http.client.HTTPException as error:  # it is there, and does not speak of records
            raise ControlError(f"the server at {address.netloc} takes no records: {type(error).__name__}") from error
        finally:
            wire.close()


def _words(answer: bytes) -> str:
    """What a server says of an error, in its own words where it has some."""
    try:
        said = msgspec.json.decode(answer)
        return " ".join(str(said["error"]).split())[:200]
    except (*UNDECODABLE, KeyError, TypeError):
        return "it does not say why"
