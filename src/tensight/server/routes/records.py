"""Records of ranks whose disks this server does not see."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.control.records import PIECE, RECORDS, Offer
from tensight.errors import UsageError
from tensight.server.routes.asking import body, house, number
from tensight.server.wire import Json


async def offer(request: Request) -> Response:
    """A rank asks whether it is to send its records, and where to."""
    asked = await body(request, Offer)
    return Json(await run_in_threadpool(house(request).receiving.grant, asked))


async def put(request: Request) -> Response:
    """A piece of a file, which begins at the byte `at`."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > PIECE:
            raise UsageError("The piece is too long.")
    key, name = request.path_params["key"], request.path_params["name"]
    at = number(request, "at", 0) or 0
    if at < 0:
        raise UsageError("at must not be negative.")
    last = request.query_params.get("last") == "1"
    await run_in_threadpool(house(request).receiving.put, key, name, at, bytes(data), last=last)
    return Response(status_code=204)


async def remove(request: Request) -> Response:
    await run_in_threadpool(house(request).receiving.remove, request.path_params["key"], request.path_params["name"])
    return Response(status_code=204)


ROUTES = [
    Route(RECORDS, offer, methods=["POST"]),
    Route(f"{RECORDS}/{{key}}/{{name:path}}", put, methods=["PUT"]),
    Route(f"{RECORDS}/{{key}}/{{name:path}}", remove, methods=["DELETE"]),
]
