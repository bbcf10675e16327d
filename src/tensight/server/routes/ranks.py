"""What each rank prints, and where it is."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.runs import beats, output
from tensight.runs.audit import audit
from tensight.server.answers import Call, PrintLine, RankPlace
from tensight.server.recording import Recording
from tensight.server.routes.asking import house, number, recording
from tensight.server.wire import Json

MOST = 5000


def lines(request: Request) -> Response:
    """The last lines that a rank has printed, and between them what was done to its training."""
    run = recording(request)
    rank = number(request, "rank", 0)
    assert rank is not None
    found = [PrintLine(one.step, one.time, one.stream, one.text) for one in output.read(run.folder, rank, MOST)]
    found += [PrintLine(one.step, one.time, "", f"{one.who}: {one.words}") for one in audit(run.folder, rank)]
    return Json(sorted(found, key=lambda one: one.time)[-MOST:])


def places(request: Request) -> Response:
    """Where each rank is: its step, what it is in while it does not get on, and whether it is gone."""
    run = recording(request)
    control = house(request).trainings.control(run.id)
    states = {one.rank: one.state for one in control.ranks} if control is not None else {}
    now = time.time()
    said = {beat.rank: beat for beat in beats.read_all(run.folder)}
    return Json(
        [_place(run, rank, said.get(rank), states.get(rank, ""), now) for rank in sorted({*said, *_ranks(run)})]
    )


def _ranks(run: Recording) -> list[int]:
    with run.lock:
        return list(run.readers)


def _place(run: Recording, rank: int, beat: beats.Beat | None, state: str, now: float) -> RankPlace:
    with run.lock:
        reader = run.readers.get(rank)
        ended = reader.end.ended if reader is not None and reader.end is not None else ""
        steps = reader.steps.numbers if reader is not None else []
        step = steps[-1] if steps else -1
    gone = not ended and (beat.gone(now) if beat is not None else reader is not None and not reader.alive)
    if beat is None:
        return RankPlace(rank, "gone" if gone else ended or state or "running", step)
    doing = "gone" if gone else ended or (state if state not in ("lost", "ended") else "") or "running"
    if doing == "running" and beat.stalled:
        doing = "stalled"
    return RankPlace(
        rank=rank,
        state=doing,
        step=max(step, beat.step if not ended else -1),
        host=beat.host,
        process=beat.pid,
        seconds=0.0 if ended else round(max(0.0, (beat.time if gone else now) - beat.since), 1),
        operation=beat.operation,
        place=beat.place,
        code=beat.code,
        stack=tuple(Call(one.file, one.line, one.function, one.code) for one in beat.stack),
    )


ROUTES = [
    Route("/api/runs/{run}/output", lines),
    Route("/api/runs/{run}/ranks", places),
]
