"""Who may ask: every route against no token, a wrong one, a foreign host, a foreign origin and every method."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tensight.control.launch import is_loopback
from tensight.control.messages import PATH, TOKEN_HEADER
from tensight.server import app, routes
from tensight.server.app import STATIC
from tensight.server.guard import host_names
from tests.server.serving import TOKEN, Served, client

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DATA = [route for route in routes.ALL if isinstance(route, Route)]
SOCKETS = [route for route in routes.ALL if isinstance(route, WebSocketRoute)]
PUBLIC = [
    "/",
    "/run/lenet-1",
    "/run/lenet-1/step/3/node/head.fc",
    "/assets/page.js",
    "/assets/page.css",
    "/favicon.svg",
]


def path_of(route: Route) -> str:
    return route.path.replace("{run}", "lenet-1").replace("{id:int}", "1")


BASE = "http://127.0.0.1:8765"
RIGHT = {"Cookie": f"tensight_8765={TOKEN}"}


def table(recorded: Path, fill: Callable[[Callable[..., Awaitable[int]]], Awaitable[None]]) -> None:
    """Ask an application directly, without a socket: the table has a thousand entries."""

    async def ask_all() -> None:
        made = app.create(token=TOKEN, place=recorded)
        transport = httpx.ASGITransport(app=made)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:

            async def ask(method: str, path: str, **headers: str) -> int:
                answer = await client.request(method, path, headers=headers)
                return answer.status_code

            await fill(ask)

    asyncio.run(ask_all())


def asked(served: Served, path: str, headers: dict[str, str], host: str = "127.0.0.1") -> int:
    """The code with which a WebSocket is refused."""
    wire = socket.create_connection(("127.0.0.1", served.port))
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"ws://{host}:{served.port}{path}", sock=wire, additional_headers=headers, proxy=None),
    ):
        pass
    wire.close()
    return refused.value.response.status_code


@pytest.mark.parametrize("route", DATA, ids=lambda route: f"{path_of(route)} {'/'.join(sorted(route.methods))}")
def test_data_and_commands_need_the_token_and_come_from_here(recorded: Path, route: Route) -> None:
    path = path_of(route)

    async def fill(ask: Callable[..., Awaitable[int]]) -> None:
        for method in METHODS:
            assert await ask(method, path) == 401, (method, "no token")
            assert await ask(method, path, Cookie="tensight_8765=wrong") == 401, (method, "wrong token")
            assert await ask(method, path, Cookie=f"tensight_9999={TOKEN}") == 401, (method, "token of another port")
            assert await ask(method, f"{path}?token={TOKEN}") == 401, (method, "token in the address")
            assert await ask(method, path, **RIGHT, Host="evil.example:8765") == 403, (method, "foreign host")
            assert await ask(method, path, **RIGHT, Origin="http://evil.example") == 403, (method, "foreign origin")

    table(recorded, fill)


@pytest.mark.parametrize("path", ["/api/runs", "/"])
def test_no_spelling_of_another_site_is_taken_for_ours(recorded: Path, path: str) -> None:
    async def fill(ask: Callable[..., Awaitable[int]]) -> None:
        for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1:8765", "[::2]", "localhost.", "[", "a b"):
            assert await ask("GET", path, **RIGHT, Host=host) == 403, host
        for host in ("localhost:8765", "LOCALHOST", "[::1]:8765", "127.0.0.1:9000"):
            assert await ask("GET", path, **RIGHT, Host=host) == 200, host  # the port may be a tunnel's
        for origin in (
            "http://127.0.0.1:1",
            "https://127.0.0.1",
            "null",
            "file://",
            "http://[",
            "",
            "http://localhost:8765",
        ):
            assert await ask("GET", path, **RIGHT, Origin=origin) == 403, origin
        assert await ask("GET", path, **RIGHT, Origin=BASE) == 200

    table(recorded, fill)


@pytest.mark.parametrize("path", sorted({path_of(route) for route in DATA}))
def test_a_method_that_a_route_does_not_have_is_refused(recorded: Path, path: str) -> None:
    allowed: set[str] = set().union(*(route.methods or set() for route in DATA if path_of(route) == path))

    async def fill(ask: Callable[..., Awaitable[int]]) -> None:
        for method in set(METHODS) - allowed:
            assert await ask(method, path, **RIGHT, **{TOKEN_HEADER: TOKEN}) == 405, method

    table(recorded, fill)


def test_an_unknown_address_below_api_tells_a_stranger_nothing(recorded: Path) -> None:
    async def fill(ask: Callable[..., Awaitable[int]]) -> None:
        for path in ("/api", "/api/", "/api/nothing", "/api//runs"):
            assert await ask("GET", path) == 401, path

    table(recorded, fill)


@pytest.mark.parametrize("path", PUBLIC)
def test_the_page_itself_is_public_but_only_to_be_read_and_only_under_our_name(recorded: Path, path: str) -> None:
    async def fill(ask: Callable[..., Awaitable[int]]) -> None:
        for method in METHODS:
            assert await ask(method, path) == (200 if method in ("GET", "HEAD") else 405), method
            assert await ask(method, path, Host="evil.example") == 403, method
            assert await ask(method, path, Origin="http://evil.example") == 403, method

    table(recorded, fill)


@pytest.mark.parametrize("path", [route.path for route in SOCKETS])
def test_the_sockets_are_closed_to_strangers(served: Served, path: str) -> None:
    both = {"Cookie": f"tensight_{served.port}={TOKEN}", TOKEN_HEADER: TOKEN}
    assert asked(served, path, {}) == 403
    assert asked(served, path, {"Cookie": f"tensight_{served.port}=wrong", TOKEN_HEADER: "wrong"}) == 403
    assert asked(served, path, {**both, "Origin": "http://evil.example"}) == 403
    assert asked(served, path, both, host="evil.example") == 403


def test_neither_token_opens_the_other_door(served: Served) -> None:
    assert asked(served, "/api/live", {TOKEN_HEADER: TOKEN}) == 403
    assert asked(served, PATH, {"Cookie": f"tensight_{served.port}={TOKEN}"}) == 403


def test_a_page_of_ours_cannot_pretend_to_be_a_training(served: Served) -> None:
    assert asked(served, PATH, {TOKEN_HEADER: TOKEN, "Origin": served.base}) == 403


def test_the_printed_address_hands_the_token_to_a_cookie_and_forgets_it(served: Served) -> None:
    answer = served.stranger.get(f"/run/lenet-1?tab=hits&token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/run/lenet-1?tab=hits"
    cookie = answer.headers["set-cookie"]
    assert f"tensight_{served.port}={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    served.stranger.cookies.clear()


def test_a_wrong_token_in_the_address_sets_no_cookie(served: Served) -> None:
    answer = served.stranger.get(f"{served.base}//evil.example/?token=wrong")
    assert "set-cookie" not in answer.headers
    assert answer.headers["location"].startswith("/evil.example")  # never another site


def test_every_answer_says_what_a_browser_may_do_with_it(served: Served) -> None:
    for path in ("/", "/assets/page.js", "/api/runs", "/nothing"):
        headers = served.stranger.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_form_of_another_site_cannot_send_commands(recorded: Path) -> None:
    with client(recorded) as page:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = page.post("/api/runs/lenet-1/control", content=b'{"do":"pause"}', headers={"Content-Type": kind})
            assert answer.status_code == 400, kind


def test_a_server_for_other_machines_takes_numbers_and_its_own_names_only(recorded: Path) -> None:
    with client(recorded, host="0.0.0.0") as page:
        assert page.get("/api/runs", headers={"Host": "10.1.2.3:8765"}).status_code == 200
        assert page.get("/api/runs", headers={"Host": "evil.example"}).status_code == 403


def test_loopback_has_three_names() -> None:
    assert host_names("127.0.0.1") == {"127.0.0.1", "localhost", "::1"}
    assert [is_loopback(host) for host in ("::1", "127.0.0.2", "192.168.0.1", "node7")] == [True, True, False, False]


def test_the_built_page_asks_nobody_else_for_anything() -> None:
    text = "".join(path.read_text() for path in STATIC.rglob("*") if path.is_file())
    names = set(re.findall(r"https?://([\w.-]+)", text))
    assert names <= {"www.w3.org"}
