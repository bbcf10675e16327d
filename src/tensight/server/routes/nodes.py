"""Nodes: the tree of modules, and one module with its tensors."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import NameNotFound
from tensight.records import Hit, Observation, TensorInfo
from tensight.server import tree
from tensight.server.answers import Matching, NodeDetails, TensorRow
from tensight.server.recording import Recording
from tensight.server.routes.asking import number, recording
from tensight.server.wire import Json
from tensight.watchpoints.catalogue import EXPRESSION, find
from tensight.watchpoints.condition import Condition
from tensight.watchpoints.expression import Expression
from tensight.watchpoints.selectors import ALL_KINDS, Selector

LOOK_BACK = 40
"""How many steps to look back for a tensor that the asked step did not watch."""


def listing(request: Request) -> Response:
    """Every module, and every place of a tensor that is no module, in order."""
    return Json(tree.rows(recording(request), number(request, "step")))


def details(request: Request) -> Response:
    """A module at a step: inputs, outputs, parameters, gradients, each with its statistics."""
    run = recording(request)
    path = request.query_params.get("node", "")
    network = request.query_params.get("network")
    rank = number(request, "rank")
    with run.lock:
        reader = run.reader(rank)
        infos = [info for info in run.tensors(rank) if info.node == path and network in (None, info.network)]
        found = [
            (one, module)
            for one in reader.networks.values()
            if network in (None, one.name)
            for module in one.modules
            if module.path == path
        ]
        if not infos and not found:
            raise NameNotFound(f"There is no node {path[:200]!r} in this run.")
        home, module = found[0] if found else (None, None)
        name = home.name if home is not None else infos[0].network
        numbers = reader.steps.numbers
        step = number(request, "step", numbers[-1] if numbers else -1)
        assert step is not None
        parameters = [one for one in home.parameters if one.module == path] if home is not None else []
        answer = NodeDetails(
            network=name,
            path=path,
            step=step,
            module=module,
            parameters=tuple(parameters),
            tensors=tuple(_tensors(run, reader.rank, [info for info in infos if info.network == name], step)),
        )
    return Json(answer)


def _tensors(run: Recording, rank: int, infos: list[TensorInfo], step: int) -> list[TensorRow]:
    reader = run.reader(rank)
    seen: dict[int, tuple[int, Observation | None]] = {}
    hits: dict[int, tuple[Hit, ...]] = {}
    wanted = frozenset(info.id for info in infos)
    for place in [one for one in reader.steps.numbers if one <= step][: -LOOK_BACK - 1 : -1]:
        missing = wanted - seen.keys()
        if not missing:
            break
        record = reader.steps.some(place, missing)
        for one in record.observations:
            seen[one.tensor] = (place, one)
        hits[place] = record.hits
    kept = set(reader.kept.get(step, ()))
    rows = []
    for info in infos:
        at, last = seen.get(info.id, (step, None))
        codes = dict.fromkeys(hit.condition for hit in hits.get(at, ()) if hit.tensor == info.id and hit.error is None)
        rows.append(TensorRow(info, info.name, last, at, tuple(codes), info.id in kept))
    return rows


def matching(request: Request) -> Response:
    """What a selector selects for a condition, for the form that asks for one."""
    run = recording(request)
    code = request.query_params.get("condition", EXPRESSION)
    condition: type[Condition] = Expression if code == EXPRESSION else find(code)
    selector = Selector.parse(request.query_params.get("on") or "*")
    allowed = condition.applies_to or ALL_KINDS
    usual = Selector.parse(condition.on)
    with run.lock:
        names = [
            f"{info.kind} {info.name}".strip()
            for info in run.tensors()
            if selector.selects(info, allowed=allowed) and (_says_kinds(selector) or usual.selects(info))
        ]
    return Json(Matching(len(names), tuple(names[:20])))


def _says_kinds(selector: Selector) -> bool:
    return all(term.kinds is not None for term in selector.terms)


ROUTES = [
    Route("/api/runs/{run}/nodes", listing),
    Route("/api/runs/{run}/node", details),
    Route("/api/runs/{run}/matching", matching),
]
