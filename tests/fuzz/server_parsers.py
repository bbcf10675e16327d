"""What comes over the wire: requests, messages of pages, messages of trainings; commands on their way to a training."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from starlette.types import Message, Scope

from tensight.control import messages
from tensight.control.commands import AddWatchpoint, Continue, Pause, RunToNode, Step
from tensight.control.machine import Machine
from tensight.errors import UNDECODABLE, ControlError
from tensight.records import Watchpoint
from tensight.server import app
from tests.fuzz.trying import Parser, Prepared
from tests.page.recorded import write_run

TOKEN = "right-token"
PORT = 8765
RUN = "lenet-1"
POINT = {"id": 1, "condition": "TL", "parameters": {"max_gt": 100.0}, "on": "gradient:*", "action": "pause"}
GETS = (
    "/api/welcome",
    "/api/runs",
    f"/api/runs/{RUN}",
    f"/api/runs/{RUN}/steps?after=0&rank=0",
    f"/api/runs/{RUN}/hits?step=4&rank=0&condition=TO&kind=gradient&offset=0&limit=5",
    f"/api/runs/{RUN}/series?rank=0&tensor=3&statistic=max&first=0&last=5",
    f"/api/runs/{RUN}/nodes?search=head&kind=output&parent=conv",
    f"/api/runs/{RUN}/node?name=head.fc&step=3&rank=0",
    f"/api/runs/{RUN}/matching?on=gradient:*",
    f"/api/runs/{RUN}/tensor?tensor=3&step=4&rank=0",
    f"/api/runs/{RUN}/tensor/values?tensor=3&step=4&slice=0,:&row=0&column=2&other_step=3&rtol=1e-5&atol=nan",
    f"/api/runs/{RUN}/tensor/heat?tensor=3&step=4&most=64",
    f"/api/runs/{RUN}/tensor/image?tensor=3&step=4&image=0",
    f"/api/runs/{RUN}/tensor/download?tensor=3&step=4&format=safetensors",
    f"/api/runs/{RUN}/recheck?step=4&rank=0",
    f"/api/runs/{RUN}/graphs",
    f"/api/runs/{RUN}/graph/group?graph=step%200&group=conv&rank=0",
    f"/api/runs/{RUN}/graph/find?graph=step%200&text=conv&type=relu",
    f"/api/runs/{RUN}/graph/near?graph=step%200&node=3&hops=2",
    f"/api/runs/{RUN}/graph/lines?graph=step%200&file=train.py&first=1",
    f"/api/runs/{RUN}/output?after=0",
    f"/api/runs/{RUN}/ranks",
    f"/api/runs/{RUN}/time?rank=0",
    f"/api/runs/{RUN}/time/against?other={RUN}",
    f"/api/compare?a={RUN}&b={RUN}",
    "/api/searches",
    "/api/searches/x",
    "/api/conditions",
    f"/run/{RUN}/step/4/node/head",
    "/assets/index.js",
    "/?token=x",
)
BODIES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/control", {"do": "step", "count": 3}),
    ("POST", "/control", {"do": "run_to_node", "node": "head"}),
    ("POST", "/watchpoints", POINT),
    ("POST", "/watchpoints", {"id": 1, "condition": "EXPR", "expression": "max > 3 * median(max, 9)"}),
    ("PUT", "/watchpoints/1", POINT),
    ("DELETE", "/watchpoints/1", None),
    ("POST", "/watchpoints/recommended", None),
    ("POST", "/mute", {"key": "sqrt_zero_gradient@head.scale", "muted": True}),
)


class Asked:
    """The application, asked without a socket between."""

    def __init__(self, folder: Path) -> None:
        write_run(folder / "runs" / RUN, steps=6, bad_from=4)
        self.loop = asyncio.new_event_loop()
        self.app = app.create(token=TOKEN, port=PORT, place=folder / "runs")

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(work, 60))

    def scope(self, kind: str, path: bytes, **more: Any) -> Scope:
        plain, _, query = path.partition(b"?")
        from urllib.parse import unquote

        return {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http" if kind == "http" else "ws",
            "path": unquote(plain.decode("latin-1")),
            "raw_path": plain,
            "query_string": query,
            "root_path": "",
            "headers": [
                (b"host", f"127.0.0.1:{PORT}".encode()),
                (b"cookie", f"tensight_{PORT}={TOKEN}".encode()),
                (b"content-type", b"application/json"),
                (messages.TOKEN_HEADER.lower().encode(), TOKEN.encode()),
            ],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", PORT),
            **more,
        }

    async def http(self, method: str, path: bytes, body: bytes) -> None:
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return given.pop() if given else {"type": "http.disconnect"}

        status = 0

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        # the error handler answers 500 and lets the error through: it is then the case's own
        await self.app(self.scope("http", path, method=method), receive, send)
        assert 200 <= status < 500, f"answered by {status}"

    async def socket(self, path: bytes, told: Sequence[Message]) -> None:
        given: list[Message] = [{"type": "websocket.connect"}, *told, {"type": "websocket.disconnect", "code": 1000}]

        async def receive() -> Message:
            await asyncio.sleep(0)
            return given.pop(0) if given else {"type": "websocket.disconnect", "code": 1000}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)

        await self.app(self.scope("websocket", path, subprotocols=[]), receive, send)


def request(folder: Path) -> Prepared:
    """Method, address and body, a line each."""
    asked = Asked(folder)

    def read(data: bytes) -> None:
        method, _, rest = data.partition(b" ")
        path, _, body = rest.partition(b"\n")
        asked.run(asked.http(method.decode("latin-1"), path, body))

    corpus = [f"GET {path}\n".encode() for path in GETS]
    for method, path, body in BODIES:
        if path == "/control":
            continue  # refused, as nothing trains here: not a beginning
        sent = b"" if body is None else json.dumps(body).encode()
        corpus.append(f"{method} /api/runs/{RUN}{path}\n".encode() + sent)
    words = [b"%2e%2e/", b"%00", b"&rank=", b"&step=-1", b"?", b"HEAD ", b"POST ", b"lenet-1/", b"&tensor=0", b"~"]
    return Prepared([one for one in corpus if _answered(read, one)], read, words)


def _answered(read: Any, one: bytes) -> bool:
    read(one)
    return True


def page_message(folder: Path) -> Prepared:
    asked = Asked(folder)

    def read(data: bytes) -> None:
        texts = [{"type": "websocket.receive", "text": part.decode("utf-8", "replace")} for part in data.split(b"\n")]
        asked.run(asked.socket(b"/api/live", [*texts, {"type": "websocket.receive", "bytes": data}]))

    good = json.dumps({"run": RUN}).encode()
    return Prepared([good, good + b"\n" + json.dumps({"run": ""}).encode()], read, [b'"run"', b"null", b"\n"])


def _told(folder: Path) -> list[Any]:
    machine = Machine()
    return [
        messages.Hello(messages.WIRE, RUN, str(folder / "runs" / RUN), 0, 1, 99999999, 1.0, "elsewhere", "cpu"),
        messages.Status(machine, (Watchpoint(1, "TO"),)),
        messages.Answer(1, "no"),
        messages.Boundary(1, 5, True),
        messages.Wish(5, "hit"),
        messages.Goodbye("finished"),
    ]


def training_message(folder: Path) -> Prepared:
    """A training says hello well, and then anything."""
    asked = Asked(folder)
    hello, *others = [messages.encode(one) for one in _told(folder)]

    def read(data: bytes) -> None:
        if data[:1] == b"h":
            told = [data[1:], *others]
        else:
            told = [hello, data[1:], *others]
        sent: list[Message] = [{"type": "websocket.receive", "bytes": one} for one in told]
        asked.run(asked.socket(messages.PATH.encode(), [*sent, {"type": "websocket.receive", "text": "x"}]))

    return Prepared([b"h" + hello, *(b"m" + one for one in others)], read, [b"\xc0", b"\xcb\x7f\xf8\0\0\0\0\0\0"])


def command(folder: Path) -> Prepared:
    """What a training hears; a message that cannot be read ends the link by this error."""
    told = [
        messages.Request(1, AddWatchpoint(Watchpoint(1, "TL", {"max_gt": 1.0}))),
        messages.Request(2, Step(3)),
        messages.Request(3, RunToNode("head")),
        messages.Request(4, Pause(7)),
        messages.Pages(1),
        messages.Meet(1, 5),
        messages.Agreed(1, "hit"),
    ]

    def read(data: bytes) -> None:
        with contextlib.suppress(*UNDECODABLE, ControlError):  # the link answers by the sentence, or is made anew
            found = messages.read_to_training(data)
            machine = Machine().step_began(0)
            if isinstance(found, messages.Request):
                machine.command(found.command).step_ended(1).command(Continue())

    return Prepared([messages.encode(one) for one in told], read)


PARSERS = [
    Parser("http", request),
    Parser("page-message", page_message),
    Parser("training-message", training_message),
    Parser("command", command),
]
