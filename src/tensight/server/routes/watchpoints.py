"""Watchpoints: made, changed and removed, while a training runs or on a finished run; and the conditions there are."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.control.commands import AddWatchpoint, ChangeWatchpoint, Command, RemoveWatchpoint
from tensight.errors import NameNotFound
from tensight.records import Watchpoint
from tensight.server.answers import ConditionForm, SettingForm
from tensight.server.recording import Recording
from tensight.server.routes.asking import body, house, recording, who
from tensight.server.wire import Json
from tensight.watchpoints import recommended
from tensight.watchpoints.catalogue import CONDITIONS
from tensight.watchpoints.checker import Checker
from tensight.watchpoints.condition import RANGES, Condition
from tensight.watchpoints.expression import Expression


def conditions(request: Request) -> Response:
    """Every condition: what it finds, what it asks for, what it means."""
    known: list[type[Condition]] = [*CONDITIONS.values(), Expression]
    return Json([_form(one) for one in known])


def _form(condition: type[Condition]) -> ConditionForm:
    return ConditionForm(
        code=condition.code,
        name=condition.name,
        title=condition.title,
        on=condition.on,
        applies_to=tuple(sorted(condition.applies_to)),
        settings=tuple(
            SettingForm(one.name, one.help, one.range, RANGES[one.range], one.default) for one in condition.settings
        ),
        finds=condition.finds,
        matters=condition.matters,
        causes=condition.causes,
        advice=condition.try_,
        one_of=condition.one_of,
    )


def listing(request: Request) -> Response:
    return Json(list(recording(request).watchpoints.values()))


async def create(request: Request) -> Response:
    """Add one; its number is given here."""
    given = await body(request, Watchpoint)
    run = recording(request)
    point = msgspec.structs.replace(given, id=_free(run), recommended=False)
    _check(point)
    await _apply(request, run, [AddWatchpoint(point)])
    return Json(point, 201)


async def accept_recommended(request: Request) -> Response:
    """Add those of the recommended set that are not there."""
    run = recording(request)
    there = {(one.condition, one.on, one.name) for one in run.watchpoints.values()}
    offered = recommended.watchpoints(first_id=_free(run))
    await _apply(request, run, [AddWatchpoint(p) for p in offered if (p.condition, p.on, p.name) not in there])
    return Json(list(run.watchpoints.values()))


async def change(request: Request) -> Response:
    given = await body(request, Watchpoint)
    run = recording(request)
    before = _known(run, request)
    point = msgspec.structs.replace(given, id=before.id)
    _check(point)
    await _apply(request, run, [ChangeWatchpoint(point)])
    return Json(point)


async def remove(request: Request) -> Response:
    run = recording(request)
    await _apply(request, run, [RemoveWatchpoint(_known(run, request).id)])
    return Json(list(run.watchpoints.values()))


async def clear(request: Request) -> Response:
    """Remove all."""
    run = recording(request)
    await _apply(request, run, [RemoveWatchpoint(id) for id in run.watchpoints])
    return Json([])


async def _apply(request: Request, run: Recording, commands: list[Command]) -> None:
    """Have the training follow, or, when there is none, keep the change for rechecks of this recording."""
    here = house(request)
    if here.trainings.connected(run.id):
        for command in commands:
            await here.trainings.command(run.id, command, who(request))
        run.drafts = None
        run.refresh()
    else:
        now = run.watchpoints
        for command in commands:
            if isinstance(command, AddWatchpoint | ChangeWatchpoint):
                now[command.watchpoint.id] = command.watchpoint
            elif isinstance(command, RemoveWatchpoint):
                now.pop(command.id, None)
        run.draft(now)
    here.live.wake.set()


def _known(run: Recording, request: Request) -> Watchpoint:
    id = request.path_params["id"]
    try:
        return run.watchpoints[id]
    except KeyError:
        raise NameNotFound(f"There is no watchpoint {id} in this run.") from None


def _free(run: Recording) -> int:
    used = {*run.watchpoints, *(hit.watchpoint for hit in run.hits)}
    return max(used, default=0) + 1


def _check(point: Watchpoint) -> None:
    """A SpecError names what is wrong, before the training hears of it."""
    Checker([point], on_error=lambda where, error: None)


ROUTES = [
    Route("/api/conditions", conditions),
    Route("/api/runs/{run}/watchpoints", listing),
    Route("/api/runs/{run}/watchpoints", create, methods=["POST"]),
    Route("/api/runs/{run}/watchpoints", clear, methods=["DELETE"]),
    Route("/api/runs/{run}/watchpoints/recommended", accept_recommended, methods=["POST"]),
    Route("/api/runs/{run}/watchpoints/{id:int}", change, methods=["PUT"]),
    Route("/api/runs/{run}/watchpoints/{id:int}", remove, methods=["DELETE"]),
]
