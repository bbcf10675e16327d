"""What the user's code hands to the page: calls of `tensight.print`, and samples of batches."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.runs import prints as kept
from tensight.server.print_answers import NumberedPrint, NumberedSamples
from tensight.server.routes.asking import number, recording
from tensight.server.wire import Json

MOST_PRINTS = 500
MOST_BATCHES = 50


def printed(request: Request) -> Response:
    """The last calls of `tensight.print` of a rank, in order."""
    run = recording(request)
    found = kept.prints(run.folder, number(request, "rank", 0) or 0, number(request, "after", 0) or 0)
    return Json([NumberedPrint(place, one) for place, one in found[-MOST_PRINTS:]])


def sampled(request: Request) -> Response:
    """The last batches of a rank that were looked at, in order; images are PNG in base64."""
    run = recording(request)
    found = kept.samples(run.folder, number(request, "rank", 0) or 0, number(request, "after", 0) or 0)
    return Json([NumberedSamples(place, one) for place, one in found[-MOST_BATCHES:]])


ROUTES = [
    Route("/api/runs/{run}/prints", printed),
    Route("/api/runs/{run}/samples", sampled),
]
