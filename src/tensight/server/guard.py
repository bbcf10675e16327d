"""Who may ask: the token, the Host and Origin checks, and the headers that go with every answer.

Loopback is no protection by itself: login nodes are shared, and any web page may send requests to it.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensight.control.launch import is_loopback
from tensight.control.messages import PATH as TRAINING
from tensight.control.messages import TOKEN_HEADER
from tensight.control.records import RECORDS
from tensight.server.wire import Json

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware that lets through only what carries the token, for data, and what is meant for us, always."""

    def __init__(self, app: ASGIApp, token: str, host: str, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"tensight_{port}"  # cookies are shared between the ports of a host
        self._names = host_names(host)
        self._loopback = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(scope, receive, send, *refused)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache")  # files keep their names when Tensight is renewed
            await send(message)

        token = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        if token is not None and scope["method"] == "GET" and not scope["path"].startswith("/api/"):
            await self._take_token(token)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _take_token(self, token: str) -> ASGIApp:
        """Move the token from the address into a cookie, so that it is not copied along with addresses."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            rest = [(key, value) for key, value in parse_qsl(scope["query_string"].decode("latin-1")) if key != "token"]
            target = quote("/" + scope["path"].lstrip("/")) + ("?" + urlencode(rest) if rest else "")
            response = RedirectResponse(target, 303)
            if self._is_token(token):
                secure = scope.get("scheme") == "https"
                response.set_cookie(self._cookie, token, httponly=True, samesite="strict", path="/", secure=secure)
            await response(scope, receive, send)

        return answer

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        if not scope["query_string"].isascii():
            return 400, "The address holds bytes that no address has."
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_our_name(hosts[0]):
            return 403, "This address is not served here; open the address that Tensight has printed."
        origin = headers.get("origin")
        if origin is not None and not _same_origin(origin, hosts[0]):
            return 403, "Requests from other sites are refused."
        path = scope["path"]
        if path in (TRAINING, RECORDS) or path.startswith(f"{RECORDS}/"):
            if origin is not None:
                return 403, "Only a training may connect here."
            return None if self._is_token(headers.get(TOKEN_HEADER.lower(), "")) else (401, "The token is missing.")
        if path.startswith("/api") and not self._is_token(HTTPConnection(scope).cookies.get(self._cookie, "")):
            return 401, "The token is missing: open the address that Tensight has printed."
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())

    def _is_our_name(self, host: str) -> bool:
        name = _host_name(host)
        if name in self._names:
            return True
        if self._loopback:
            return False
        try:  # a name can be made to point at us by anybody, a plain number cannot
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def host_names(host: str) -> frozenset[str]:
    """The names under which a server bound to `host` may be asked for."""
    names = {"127.0.0.1", "localhost", "::1"}
    if not is_loopback(host):
        names |= {host.lower(), socket.gethostname().lower()}
    return frozenset(names)


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


async def _refuse(scope: Scope, receive: Receive, send: Send, code: int, message: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": message[:120]})  # before accepting: a 403
        return
    response = Json({"error": message}, code)
    for name, value in HEADERS.items():
        response.headers[name] = value
    await response(scope, receive, send)
