"""Hits: filtered and paged, and a step judged again with the watchpoints of now."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import NameNotFound
from tensight.records import Hit
from tensight.server.answers import HitPage
from tensight.server.recording import Recording
from tensight.server.routes.asking import number, recording
from tensight.server.wire import Json
from tensight.watchpoints import recheck as watchpoints

MOST = 500
HISTORY = 120
"""How many steps before the asked one a recheck replays, so that conditions over time have something to look at."""


def page(request: Request) -> Response:
    """Hits in order of execution. Filters: step, rank, network, condition, kind, watchpoint, name, errors, own."""
    run = recording(request)
    step = number(request, "step")
    with run.lock:
        note = ""
        if step is None and run.hits_left_out:
            note = (
                f"Only the first {len(run.hits)} hits are listed; {run.hits_left_out} later ones are seen step by step."
            )
        return Json(_page(request, run.hits if step is None else run.hits_of(step), note=note))


async def recheck(request: Request) -> Response:
    """Judge a step again, without running anything."""
    run = recording(request)
    rank = number(request, "rank")
    step = number(request, "step")
    hits, note = await run_in_threadpool(judge_again, run, rank, step)
    return Json(_page(request, hits, recheck=True, note=note))


def judge_again(run: Recording, rank: int | None, step: int | None) -> tuple[list[Hit], str]:
    """The hits of a step with the watchpoints of now, and what could not be judged."""
    troubles: list[str] = []
    with run.lock:
        reader = run.reader(rank)
        numbers = list(reader.steps.numbers)
        if not numbers:
            return [], "No step has been recorded yet."
        place = len(numbers) - 1 if step is None else bisect.bisect_right(numbers, step) - 1
        if place < 0:
            raise NameNotFound(f"There is no step {step} any more: steps from {numbers[0]} on are kept.")
        before = numbers[max(0, place - HISTORY) : place]
        hits = watchpoints.recheck(
            [one for one in run.watchpoints.values() if one.enabled],
            numbers[place],
            reader.steps.at(numbers[place]).observations,
            {info.id: info for info in run.tensors(rank)},
            rank=reader.rank,
            updates=numbers[place],
            earlier=[(one, reader.steps.at(one).observations) for one in before],
            on_error=lambda where, error: troubles.append(f"{where}: {error}"),
        )
    return hits, "; ".join(dict.fromkeys(troubles))


def _page(request: Request, hits: Iterable[Hit], *, recheck: bool = False, note: str = "") -> HitPage:
    ask = request.query_params
    rank = number(request, "rank")
    name = ask.get("name", "").lower()
    errors, own = ask.get("errors") == "1", ask.get("own") == "1"
    base = [
        hit
        for hit in hits
        if rank in (None, hit.rank)
        and (errors or hit.error is None)
        and not (own and hit.recommended)
        and (not name or name in f"{hit.node}.{hit.slot}".lower())
    ]
    chosen = [
        hit
        for hit in base
        if ask.get("condition", "") in ("", hit.condition)
        and ask.get("kind", "") in ("", hit.kind)
        and ask.get("watchpoint", "") in ("", str(hit.watchpoint))
        and ask.get("network", "") in ("", hit.network)
    ]
    offset = max(0, number(request, "offset") or 0)
    limit = min(MOST, max(1, number(request, "limit") or 50))
    return HitPage(
        total=len(chosen),
        offset=offset,
        hits=tuple(chosen[offset : offset + limit]),
        conditions=dict(Counter(hit.condition for hit in base)),
        kinds=dict(Counter(str(hit.kind) for hit in base)),
        watchpoints=dict(Counter(str(hit.watchpoint) for hit in base)),
        networks=dict(Counter(hit.network for hit in base)),
        recheck=recheck,
        note=note,
    )


ROUTES = [
    Route("/api/runs/{run}/hits", page),
    Route("/api/runs/{run}/recheck", recheck, methods=["POST"]),
]
