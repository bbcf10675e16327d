"""Who may ask: every route against no token, a wrong one, a foreign host, a foreign origin and every method."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from tensight.control.messages import PATH, TOKEN_HEADER
from tensight.server import routes
from tensight.server.app import STATIC
from tensight.server.guard import host_names, is_loopback
from tests.server.conftest import TOKEN, client

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


@pytest.fixture(scope="module")
def stranger(recorded: Path) -> Iterator[TestClient]:
    """Somebody without a token."""
    with client(recorded) as made:
        made.cookies.clear()
        yield made


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("route", DATA, ids=lambda route: f"{path_of(route)} {'/'.join(sorted(route.methods))}")
def test_data_and_commands_need_the_token_from_here(stranger: TestClient, route: Route, method: str) -> None:
    path, right = path_of(route), {"Cookie": f"tensight_8765={TOKEN}"}
    answers = {
        "no token": stranger.request(method, path),
        "wrong token": stranger.request(method, path, headers={"Cookie": "tensight_8765=wrong"}),
        "token of another port": stranger.request(method, path, headers={"Cookie": f"tensight_9999={TOKEN}"}),
        "token in the address": stranger.request(method, f"{path}?token={TOKEN}"),
    }
    assert {case: answer.status_code for case, answer in answers.items()} == dict.fromkeys(answers, 401)
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.1:8765", ""):
        assert stranger.request(method, path, headers={**right, "Host": host}).status_code == 403, host
    for origin in ("http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1", "null", "file://"):
        assert stranger.request(method, path, headers={**right, "Origin": origin}).status_code == 403, origin


@pytest.mark.parametrize("path", sorted({path_of(route) for route in DATA}))
def test_a_method_that_a_route_does_not_have_is_refused(stranger: TestClient, path: str) -> None:
    allowed: set[str] = set().union(*(route.methods or set() for route in DATA if path_of(route) == path))
    for method in set(METHODS) - allowed:
        answer = stranger.request(method, path, headers={"Cookie": f"tensight_8765={TOKEN}"})
        assert answer.status_code == 405, method


def test_an_unknown_address_below_api_tells_a_stranger_nothing(stranger: TestClient) -> None:
    for path in ("/api", "/api/", "/api/nothing", "/api/runs/../welcome", "/api//runs"):
        assert stranger.get(path).status_code == 401, path


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", PUBLIC)
def test_the_page_itself_is_public_but_only_to_be_read_and_only_under_our_name(
    stranger: TestClient, path: str, method: str
) -> None:
    answer = stranger.request(method, path)
    assert answer.status_code == (200 if method in ("GET", "HEAD") else 405)
    assert stranger.request(method, path, headers={"Host": "evil.example"}).status_code == 403
    assert stranger.request(method, path, headers={"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "tensight_8765=wrong"},
        {"Cookie": f"tensight_8765={TOKEN}", "Host": "evil.example"},
        {"Cookie": f"tensight_8765={TOKEN}", "Origin": "http://evil.example"},
        {TOKEN_HEADER: TOKEN, "Origin": "http://evil.example"},
        {TOKEN_HEADER: TOKEN, "Host": "evil.example"},
        {TOKEN_HEADER: "wrong"},
    ],
)
@pytest.mark.parametrize("route", SOCKETS, ids=lambda route: route.path)
def test_the_sockets_are_closed_to_strangers(
    stranger: TestClient, route: WebSocketRoute, headers: dict[str, str]
) -> None:
    with pytest.raises(WebSocketDenialResponse) as refused, stranger.websocket_connect(route.path, headers=headers):
        pass
    assert refused.value.status_code in (401, 403)


def test_a_page_of_ours_cannot_pretend_to_be_a_training(stranger: TestClient) -> None:
    headers = {TOKEN_HEADER: TOKEN, "Origin": "http://127.0.0.1:8765"}
    with pytest.raises(WebSocketDenialResponse), stranger.websocket_connect(PATH, headers=headers):
        pass


def test_the_printed_address_hands_the_token_to_a_cookie_and_forgets_it(stranger: TestClient) -> None:
    answer = stranger.get(f"/run/lenet-1?tab=hits&token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/run/lenet-1?tab=hits"
    cookie = answer.headers["set-cookie"]
    assert f"tensight_8765={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    stranger.cookies.clear()


def test_a_wrong_token_in_the_address_sets_no_cookie(stranger: TestClient) -> None:
    answer = stranger.get("//evil.example/?token=wrong")
    assert "set-cookie" not in answer.headers
    assert answer.headers["location"].startswith("/evil.example")  # never another site


def test_every_answer_says_what_a_browser_may_do_with_it(stranger: TestClient) -> None:
    for path in ("/", "/assets/page.js", "/api/runs", "/nothing"):
        headers = stranger.get(path).headers
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
    names = {word.split("/")[2] for word in text.replace('"', " ").replace("`", " ").split() if word.startswith("http")}
    assert names <= {"www.w3.org"}
