"""What every route needs: the house it serves, and parameters read with care."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import HTTPConnection, Request

from tensight.control.messages import WHO_HEADER
from tensight.errors import UNDECODABLE, UsageError
from tensight.records.audit import WHO, Who
from tensight.server.answers import Welcome
from tensight.server.library import Library
from tensight.server.live import Live
from tensight.server.receiving import Receiving
from tensight.server.recording import Recording
from tensight.server.trainings import Trainings

T = TypeVar("T")
MOST_BODY = 1 << 20


@dataclass(frozen=True)
class House:
    """What the server has."""

    welcome: Welcome
    library: Library
    live: Live
    receiving: Receiving

    @property
    def trainings(self) -> Trainings:
        return self.live.trainings


def house(connection: HTTPConnection) -> House:
    found = connection.app.state.house
    assert isinstance(found, House)
    return found


def recording(request: Request) -> Recording:
    """The run that the path names, with all that was written so far."""
    found = house(request).library.find(request.path_params["run"])
    found.refresh()
    return found


def who(request: Request) -> Who:
    """Who asks, as it says itself: the token is what gives the right, this is for the audit log."""
    said = request.headers.get(WHO_HEADER, "")
    return next((one for one in WHO if one == said), "page")


def number(request: Request, name: str, default: int | None = None) -> int | None:
    """A whole number of the query, or the default."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} must be a whole number, not {text[:40]!r}.") from None


async def body(request: Request, kind: type[T]) -> T:
    """The request's JSON as `kind`; what does not fit is said in the words of the check."""
    # A form of another site cannot send this type without asking first, and asking is refused.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("The request must be JSON.")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BODY:
            raise UsageError("The request is too long.")
    try:
        return msgspec.json.decode(bytes(data), type=kind)
    except UNDECODABLE as error:
        raise UsageError(f"The request cannot be read: {error}.") from None
