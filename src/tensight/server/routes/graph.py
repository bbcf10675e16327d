"""Graphs: a group at a time, what stands near something, one node, and search."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import NameNotFound, UsageError
from tensight.runs.graph import GraphView
from tensight.server import graphs
from tensight.server.graph_answers import GraphBox, GraphFound, GraphGroup, GraphLink, GraphNodePage, StackRow
from tensight.server.graphs import Opened, Overlay
from tensight.server.recording import Recording
from tensight.server.routes.asking import number, recording
from tensight.server.routes.steps import STATISTICS
from tensight.server.wire import Json

MOST_FOUND = 60
MOST_NEIGHBOURS = 40
FARTHEST = 6


def listing(request: Request) -> Response:
    """The graphs of a run; the row of the asked one is whole."""
    return Json(graphs.rows(recording(request), number(request, "rank"), request.query_params.get("graph", "")))


def group(request: Request) -> Response:
    """The inside of a box or range, with hits and a statistic of a step."""
    run, opened = asked(request)
    view = graphs.view_named(opened, request.query_params.get("view", ""))
    key = request.query_params.get("key", "b0")
    found = view.group(key)
    things = [(view.members(found.box, item)[0], item, 0) for item in found.items]
    links = (GraphLink(one.source, one.target, one.count, _label(view, one.node)) for one in found.links)
    return Json(GraphGroup(key, view.view, graphs.boxes(view, things, overlay(request, run)), tuple(links)))


def near(request: Request) -> Response:
    """What stands within some hops of a module or node."""
    run, opened = asked(request)
    view, id = _place(request, opened)
    up, down = (min(FARTHEST, max(0, number(request, name, 2) or 0)) for name in ("up", "down"))
    found = opened.relations(view.view).near(id, up=up, down=down)
    things = [(one.id, None, one.hops) for one in found.things]
    links = (GraphLink(source, target) for source, target in found.links)
    drawn = graphs.boxes(view, things, overlay(request, run))
    return Json(GraphGroup(view.key_of(id), view.view, drawn, tuple(links), found.cut))


def whereabouts(request: Request) -> Response:
    """What must be opened until a module or node is seen."""
    _, opened = asked(request)
    return Json(graphs.where(*_place(request, opened)))


def node(request: Request) -> Response:
    """One node, with its stack."""
    run, opened = asked(request)
    place = number(request, "number", -1)
    assert place is not None
    index = opened.index
    found = index.node(place)
    over = overlay(request, run)

    def drawn(numbers: list[int]) -> tuple[GraphBox, ...]:
        return tuple(graphs.node_box(opened, one, over) for one in numbers[:MOST_NEIGHBOURS])

    return Json(
        GraphNodePage(
            box=graphs.node_box(opened, place, over),
            phase=found.phase,
            inputs=drawn(list(found.inputs)),
            readers=drawn(index.readers.get(place, [])),
            forward=graphs.node_box(opened, found.forward, over) if found.forward >= 0 else None,
            backward=drawn(index.backward.get(place, [])),
            stack=tuple(
                StackRow(frame, one.file, one.line, one.function, one.code, one.user)
                for frame, one in opened.stacks.stack(place)
            ),
        )
    )


def find(request: Request) -> Response:
    """Modules and nodes by words of their path, name or type."""
    run, opened = asked(request)
    found, total = opened.index.search(request.query_params.get("text", "")[:500], MOST_FOUND)
    over = Overlay(run, None, None)
    made: list[GraphBox] = []
    for name, key in found:
        view = opened.index.views[name]
        made.extend(graphs.boxes(view, [(view.id_of(key), None, 0)], over))
    return Json(GraphFound(total, tuple(made)))


def asked(request: Request) -> tuple[Recording, Opened]:
    """The run and graph that a request names."""
    run = recording(request)
    return run, graphs.open_graph(run, number(request, "rank"), request.query_params.get("graph", ""))


def overlay(request: Request, run: Recording) -> Overlay:
    statistic = request.query_params.get("statistic", "")
    if statistic and statistic not in STATISTICS:
        raise UsageError(f"statistic must be one of {', '.join(STATISTICS)}.")
    return Overlay(run, number(request, "rank"), number(request, "step"), statistic)


def _place(request: Request, opened: Opened) -> tuple[GraphView, int]:
    """By `key` and `view`, or a module by `node` and `network`: where there is none, the nearest above it."""
    view = graphs.view_named(opened, request.query_params.get("view", ""))
    key = request.query_params.get("key", "")
    if key:
        return view, view.id_of(key)
    path = request.query_params.get("node", "")
    network = request.query_params.get("network") or None
    while True:
        found = view.box(network, path)
        if found is not None and (found > 0 or not path):
            return view, found
        if not path:
            raise NameNotFound("This module has no operators in the recorded step.")
        path = path.rpartition(".")[0]


def _label(view: GraphView, made_by: int) -> str:
    outputs = view.graph.nodes[made_by].outputs
    return outputs[0] if outputs else ""


ROUTES = [
    Route("/api/runs/{run}/graphs", listing),
    Route("/api/runs/{run}/graph/group", group),
    Route("/api/runs/{run}/graph/near", near),
    Route("/api/runs/{run}/graph/where", whereabouts),
    Route("/api/runs/{run}/graph/node", node),
    Route("/api/runs/{run}/graph/find", find),
]
