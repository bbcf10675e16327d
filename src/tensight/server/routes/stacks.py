"""Stacks: the source lines that made operators, and one of them with its text and its nodes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.server import graphs
from tensight.server.graph_answers import LineDetails, LinePage, LineRow
from tensight.server.graphs import Overlay
from tensight.server.routes.asking import number
from tensight.server.routes.graph import asked
from tensight.server.wire import Json

MOST = 200
MOST_NODES = 100


def lines(request: Request) -> Response:
    """Lines by file and number, filtered and paged."""
    _, opened = asked(request)
    found = opened.stacks.lines(request.query_params.get("text", "")[:500])
    offset = max(0, number(request, "offset") or 0)
    limit = min(MOST, max(1, number(request, "limit") or 50))
    shown = (
        LineRow(one.frame, one.file, one.line, one.function, one.code, one.operators)
        for one in found[offset : offset + limit]
    )
    return Json(LinePage(len(found), offset, tuple(shown)))


def line(request: Request) -> Response:
    """The text around a line, as recorded, and the nodes it has made."""
    run, opened = asked(request)
    place = number(request, "frame", -1)
    assert place is not None
    excerpt = opened.stacks.excerpt(place)
    nodes = opened.stacks.nodes(place)
    over = Overlay(run, number(request, "rank"), None)
    drawn = tuple(graphs.node_box(opened, one, over) for one in nodes[:MOST_NODES])
    return Json(LineDetails(excerpt.file, excerpt.line, excerpt.first, excerpt.lines, len(nodes), drawn))


ROUTES = [
    Route("/api/runs/{run}/graph/lines", lines),
    Route("/api/runs/{run}/graph/line", line),
]
