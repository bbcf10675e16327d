"""Runs: the list, and one of them."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.control.commands import Mute
from tensight.server.answers import RunRow, Summary
from tensight.server.routes.asking import House, body, house, recording, who
from tensight.server.wire import Json


def welcome(request: Request) -> Response:
    return Json(house(request).welcome)


def listing(request: Request) -> Response:
    """All runs, the youngest first."""
    here = house(request)
    rows = [_with_state(here, one.row()) for one in here.library.all()]
    return Json(sorted(rows, key=lambda row: -row.started))


def summary(request: Request) -> Response:
    """Everything about a run but its steps, hits and nodes."""
    here, run = house(request), recording(request)
    with run.lock:
        reader = run.reader()
        crash = reader.crash or {}
        row = _with_state(here, run.row())
        answer = Summary(
            row=row,
            info=reader.info,
            end=reader.end,
            control=here.trainings.control(run.id),
            findings=tuple(run.findings),
            watchpoints=tuple(run.watchpoints.values()),
            networks=run.networks(),
            parts=tuple(reader.parts),
            coverage=reader.coverage,
            replays=tuple(reader.replays),
            crash=str(crash.get("title", "")),
            devices=tuple(sorted({info.device for info in run.tensors()})),
            sequence=run.sequence,
            structure=run.structure,
            lost=tuple(reader.lost),
        )
    return Json(answer)


async def mute(request: Request) -> Response:
    """Mute a finding, or let it speak again."""
    command = await body(request, Mute)
    here, run = house(request), recording(request)
    run.mute(command.key, command.muted)
    if here.trainings.connected(run.id):
        await here.trainings.command(run.id, command, who(request))
    here.live.wake.set()
    return Json({"key": command.key, "muted": command.muted})


def _with_state(here: House, row: RunRow) -> RunRow:
    control = here.trainings.control(row.id)
    return row if control is None else msgspec.structs.replace(row, state=control.state)


ROUTES = [
    Route("/api/welcome", welcome),
    Route("/api/runs", listing),
    Route("/api/runs/{run}", summary),
    Route("/api/runs/{run}/mute", mute, methods=["POST"]),
]
