"""Commands that drive a training."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.control.commands import Continue, NextNode, Pause, RunToNode, Step, Terminate
from tensight.server.routes.asking import body, house, who
from tensight.server.wire import Json

Driving = Continue | Pause | Step | NextNode | RunToNode | Terminate


async def command(request: Request) -> Response:
    """Have the training continue, pause, step, go to a node or end; the answer is its new state."""
    asked: Driving = await body(request, Driving)  # type: ignore[arg-type]
    here = house(request)
    run = here.library.find(request.path_params["run"]).id
    await here.trainings.command(run, asked, who(request))
    return Json(here.trainings.control(run))


ROUTES = [Route("/api/runs/{run}/control", command, methods=["POST"])]
