"""What an agent may do to a running training, through the page's server and with the page's token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from tensight.control.messages import WHO_HEADER
from tensight.errors import UsageError
from tensight.watchpoints import spec

Answer = dict[str, Any]
SECONDS = 30.0


class Driving:
    """Drives trainings through the address that `tensight run` or `tensight serve` has printed.

    >>> Driving("http://127.0.0.1:8765/")
    Traceback (most recent call last):
    tensight.errors.UsageError: http://127.0.0.1:8765/ carries no token: give the whole address, as Tensight printed it
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.port:
            raise UsageError(f"{address!r} is no address of a page: give the one that Tensight has printed")
        token = parse_qs(parts.query).get("token", [""])[0]
        if not token:
            raise UsageError(f"{address} carries no token: give the whole address, as Tensight printed it")
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._cookie = f"tensight_{parts.port}={token}"

    @property
    def tools(self) -> list[Callable[..., Answer]]:
        """What is offered; the name and the docstring of each are what the agent is told."""
        return [self.trainings, self.state, self.pause, self.resume, self.step, self.run_to_node, self.add_watchpoint]

    def trainings(self) -> Answer:
        """The runs that the page serves: id, state, steps, loss, number of findings and hits."""
        return {"runs": self._ask("GET", "/api/runs")}

    def state(self, run: str) -> Answer:
        """Whether a training runs, is pausing or is paused, where, why, and at which step."""
        summary = self._ask("GET", f"/api/runs/{quote(run, safe='')}")
        return {"run": summary["row"], "control": summary["control"]}

    def pause(self, run: str) -> Answer:
        """Have a training pause when the step that runs now has ended."""
        return self._command(run, {"do": "pause"})

    def resume(self, run: str) -> Answer:
        """Have a paused training continue."""
        return self._command(run, {"do": "continue"})

    def step(self, run: str, count: int = 1) -> Answer:
        """Have a paused training run so many steps and pause again."""
        return self._command(run, {"do": "step", "count": count})

    def run_to_node(self, run: str, node: str) -> Answer:
        """Have a paused training run until this module has returned."""
        return self._command(run, {"do": "run_to_node", "node": node})

    def add_watchpoint(self, run: str, watchpoint: str) -> Answer:
        """Watch for one thing more, written as for --watch: 'TL(max_gt=100) on gradient:encoder.*'."""
        point = msgspec.to_builtins(spec.parse(watchpoint, 1))
        answer: Answer = self._ask("POST", f"/api/runs/{quote(run, safe='')}/watchpoints", point)
        return answer

    def _command(self, run: str, command: Answer) -> Answer:
        answer: Answer = self._ask("POST", f"/api/runs/{quote(run, safe='')}/control", command)
        return answer

    def _ask(self, method: str, path: str, data: Answer | None = None) -> Any:
        request = urllib.request.Request(
            self._base + path,
            None if data is None else json.dumps(data).encode(),
            {"Cookie": self._cookie, "Content-Type": "application/json", WHO_HEADER: "mcp"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise UsageError(f"the page refused: {_said(error.read())}") from None
        except OSError as error:
            raise UsageError(
                f"the page at {self._base} does not answer ({error}): is the training still there?"
            ) from None


def _said(body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found.get("error", found)) if isinstance(found, dict) else str(found)
    except ValueError:
        return body.decode(errors="replace")[:200]
