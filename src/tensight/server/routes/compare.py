"""Two runs of the library against each other."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tensight.compare import compare, page
from tensight.compare.result import Comparison
from tensight.errors import UsageError
from tensight.server.compare_answers import Compared
from tensight.server.routes.asking import house, number
from tensight.server.wire import Json


async def compared(request: Request) -> Response:
    """The comparison of run `a` with run `b`."""
    a, b, found = await _found(request)
    return Json(Compared(a, b, found))


async def exported(request: Request) -> Response:
    """The same as one self-contained page."""
    a, b, found = await _found(request)
    name = "".join(char if char.isalnum() or char in "-_." else "-" for char in f"{a}-{b}")
    headers = {"Content-Disposition": f'attachment; filename="{name}.html"', "Cache-Control": "no-store"}
    return HTMLResponse(page.page(found, a, b), headers=headers)


async def _found(request: Request) -> tuple[str, str, Comparison]:
    names = [request.query_params.get(side, "") for side in ("a", "b")]
    if not all(names):
        raise UsageError("Say which runs to compare: ?a=…&b=….")
    library = house(request).library
    a, b = (library.find(name) for name in names)
    resumed_at = number(request, "resumed_at")
    found = await run_in_threadpool(compare, a.folder, b.folder, None, resumed_at=resumed_at)
    return a.id, b.id, found


ROUTES = [Route("/api/compare", compared), Route("/api/compare.html", exported)]
