"""Where the time of a run went: its profiles, the trace, and another profile beside it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tensight.errors import NameNotFound, UsageError
from tensight.profiling import Reading, advise, files
from tensight.profiling.difference import difference
from tensight.profiling.ranks import slow_rank
from tensight.records.timing import Profile
from tensight.server.recording import Recording
from tensight.server.routes.asking import house, number, recording
from tensight.server.time_answers import RankTime, TimeAdvice, TimeView
from tensight.server.wire import Json

MOST_OTHERS = 200


def time(request: Request) -> Response:
    """The profiles of all ranks."""
    run = recording(request)
    readings = [Reading(one) for one in files.profiles(run.folder)]
    slow = slow_rank(readings)
    ranks = []
    for reading in readings:
        advice = [TimeAdvice(one.finding(), one.gain) for one in advise(reading)]
        if slow is not None and slow.rank == reading.profile.rank:
            advice.insert(0, TimeAdvice(slow.finding(), slow.gain))
        ranks.append(_rank(run, reading, tuple(advice)))
    return Json(TimeView(tuple(ranks), _others(request, run) if ranks else ()))


def trace(request: Request) -> Response:
    """The trace for Perfetto, as it was written."""
    run = recording(request)
    rank = number(request, "rank", 0)
    assert rank is not None
    path = files.trace_file(run.folder, rank)
    if rank < 0 or not path.is_file():
        raise NameNotFound("This run has no trace.")
    return FileResponse(path, media_type="application/gzip", filename=f"{run.id}-rank-{rank}.json.gz")


def against(request: Request) -> Response:
    """What has changed from another run's profile to this one's."""
    run = recording(request)
    other = request.query_params.get("other", "")
    if not other:
        raise UsageError("Name the other run.")
    before = house(request).library.find(other)
    return Json(difference(_first(before), _first(run)))


def _first(run: Recording) -> Reading:
    return Reading(files.need(run.folder)[0])


def _rank(run: Recording, reading: Reading, advice: tuple[TimeAdvice, ...]) -> RankTime:
    profile: Profile = reading.profile
    seconds = [one.seconds for one in reading.clocked]
    return RankTime(
        rank=profile.rank,
        seconds=reading.seconds,
        median=reading.median,
        split=reading.split,
        own=reading.own,
        trace_cost=reading.trace_cost,
        p50=reading.percentile(seconds, 50),
        p99=reading.percentile(seconds, 99),
        flops=reading.flops,
        utilisation=reading.utilisation,
        processors=reading.processors,
        delayed=reading.delayed,
        worker_use=reading.worker_use(reading.loader) if reading.loader is not None else None,
        profile=profile,
        advice=advice,
        trace=files.trace_file(run.folder, profile.rank).is_file(),
    )


def _others(request: Request, run: Recording) -> tuple[str, ...]:
    found = [
        one.id for one in house(request).library.all() if one.id != run.id and files.profile_file(one.folder).is_file()
    ]
    return tuple(found[:MOST_OTHERS])


ROUTES = [
    Route("/api/runs/{run}/time", time),
    Route("/api/runs/{run}/time/trace", trace),
    Route("/api/runs/{run}/time/against", against),
]
