"""The two WebSockets: pages that look on, trainings that connect."""

from __future__ import annotations

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from tensight.control.messages import PATH
from tensight.server.routes.asking import house


async def page(socket: WebSocket) -> None:
    await house(socket).live.serve(socket)


async def training(socket: WebSocket) -> None:
    await house(socket).trainings.serve(socket)


ROUTES = [WebSocketRoute("/api/live", page), WebSocketRoute(PATH, training)]
