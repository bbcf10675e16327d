"""Steps: what is new, for curves and the scrubber, and any statistic of a tensor over them."""

from __future__ import annotations

import math

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import NameNotFound, UsageError
from tensight.records import Stats
from tensight.server import twins
from tensight.server.answers import Series
from tensight.server.routes.asking import number, recording
from tensight.server.wire import Json

STATISTICS = ("min", "max", "mean", "abs_mean", "std", "l2", "zero", "negative", "positive", "nan", "inf", "change")
MOST_POINTS = 1000


def news(request: Request) -> Response:
    """Steps after the sequence number `since`."""
    return Json(recording(request).news(number(request, "since") or 0))


def series(request: Request) -> Response:
    """One statistic of one tensor, at most a thousand points spread over all steps."""
    run = recording(request)
    statistic = request.query_params.get("statistic", "abs_mean")
    if statistic not in STATISTICS:
        raise UsageError(f"Ask for a tensor and one statistic of {', '.join(STATISTICS)}.")
    with run.lock:
        reader, info = twins.asked(request, run)
        numbers = reader.steps.numbers
        stride = max(1, -(-len(numbers) // MOST_POINTS))
        chosen = numbers[::stride]
        if numbers and chosen[-1] != numbers[-1]:
            chosen = [*chosen, numbers[-1]]
        steps: list[int] = []
        values: list[float | int | None] = []
        wanted = frozenset({info.id})
        for step in chosen:
            try:
                seen = reader.steps.some(step, wanted).observations
            except NameNotFound:
                continue  # dropped since
            if seen:
                steps.append(step)
                values.append(value(seen[-1].stats, statistic))
    return Json(Series(info.id, statistic, steps, values))


def value(stats: Stats, statistic: str) -> float | int | None:
    """
    >>> value(Stats(count=4, nan=1, pos_inf=2), "inf")
    2
    """
    if statistic == "change":
        change = stats.change
        return change.abs_mean / change.before_abs_mean if change is not None and change.before_abs_mean else None
    found = getattr(stats, statistic)
    if found is None and stats.bad:
        return math.nan  # there are values, and none of them is finite
    assert found is None or isinstance(found, int | float)
    return found


ROUTES = [
    Route("/api/runs/{run}/steps", news),
    Route("/api/runs/{run}/series", series),
]
