"""The trainings that are connected, and the pages that look on. Lives in the server's event loop alone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from tensight.control.commands import Command, Pause
from tensight.control.machine import Machine
from tensight.control.messages import WIRE, Answer, Goodbye, Hello, Pages, Request, Status, encode, read_from_training
from tensight.errors import ControlError
from tensight.server.answers import Control
from tensight.server.library import Library

BEAT = 4.0  # seconds between heartbeats of the server
ANSWER = 10.0  # a training in the middle of a long step answers at its end; then the page has long been told 'asked'
REACH = 0.3  # seconds in which a command surely reaches every rank


class Training:
    """One connected rank."""

    def __init__(self, socket: WebSocket, hello: Hello) -> None:
        self.socket = socket
        self.hello = hello
        self.machine = Machine()
        self.heard = time.monotonic()
        self.speed = 0.0  # steps in a second, as far as told
        self.open = True
        self.waiting: dict[int, asyncio.Future[str]] = {}

    async def send(self, message: Request | Pages) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
            await self.socket.send_bytes(encode(message))


def meeting_step(ranks: Sequence[Training], now: float) -> int:
    """A step that no rank can have begun when the command reaches it.

    All ranks pause behind the same step: one that paused earlier would leave the others waiting inside a collective.
    """
    furthest = max(one.machine.step + one.speed * (now - one.heard) for one in ranks)
    return math.ceil(furthest + max(one.speed for one in ranks) * REACH) + 2


class Trainings:
    """Connected ranks by run. `changed` is called when a run's state has changed."""

    def __init__(self, library: Library, changed: Callable[[str], None]) -> None:
        self._library = library
        self._changed = changed
        self._ranks: dict[str, dict[int, Training]] = {}
        self._pages: dict[str, int] = {}
        self._numbers = itertools.count(1)

    async def serve(self, socket: WebSocket) -> None:
        """Talk with one training until it is gone."""
        await socket.accept()
        training: Training | None = None
        run = ""
        try:
            hello = read_from_training(await socket.receive_bytes())
            if not isinstance(hello, Hello) or hello.wire != WIRE:
                await socket.close(1002, "other version of Tensight")
                return
            training = Training(socket, hello)
            run = self._library.add(Path(hello.run_dir)).id
            self._ranks.setdefault(run, {})[hello.rank] = training
            await training.send(Pages(self._pages.get(run, 0)))
            while True:
                self._hear(training, read_from_training(await socket.receive_bytes()))
                self._changed(run)
        except (WebSocketDisconnect, msgspec.MsgspecError, KeyError, RuntimeError):
            pass
        finally:
            if training is not None:
                training.open = False
                training.machine = training.machine.link_broken()
                for future in training.waiting.values():
                    if not future.done():
                        future.set_result("the training is gone")
                self._changed(run)

    def _hear(self, training: Training, message: object) -> None:
        now = time.monotonic()
        if isinstance(message, Status):
            steps, seconds = message.machine.step - training.machine.step, now - training.heard
            if steps > 0 and seconds > 0.01 and training.machine.state == "running":
                training.speed = steps / seconds
            training.machine = message.machine
        elif isinstance(message, Answer):
            future = training.waiting.pop(message.id, None)
            if future is not None and not future.done():
                future.set_result(message.error)
        elif isinstance(message, Goodbye):
            training.machine = training.machine.over()
        training.heard = now

    @property
    def runs(self) -> list[str]:
        return [run for run, ranks in self._ranks.items() if any(one.open for one in ranks.values())]

    def control(self, run: str) -> Control | None:
        """What the trainings of a run do now; the rank that is most in need of attention speaks for all."""
        ranks = self._ranks.get(run)
        if not ranks:
            return None
        order = ("lost", "paused", "stopping", "pausing", "waiting", "running", "ended")
        speaker = min(ranks.values(), key=lambda one: (order.index(one.machine.state), one.hello.rank))
        machine, hello = speaker.machine, speaker.hello
        return Control(
            state=machine.state,
            step=machine.step,
            node=machine.node,
            phase=machine.phase,
            reason=machine.reason,
            client=f"{hello.host}:{hello.pid}",
            device=hello.device,
            silent=round(time.monotonic() - speaker.heard, 1) if machine.state == "lost" else 0.0,
            ranks=tuple(sorted(ranks)),
        )

    def connected(self, run: str) -> bool:
        return any(one.open and one.machine.live for one in self._ranks.get(run, {}).values())

    async def command(self, run: str, command: Command) -> None:
        """Have every rank follow a command; a ControlError tells why one cannot."""
        ranks = [one for one in self._ranks.get(run, {}).values() if one.open]
        if not ranks:
            raise ControlError("No training is connected: this run is over, or its connection is lost.")
        for one in ranks:
            one.machine.command(command)  # refuses here what the training would refuse
        if isinstance(command, Pause) and len(ranks) > 1:
            command = Pause(after=meeting_step(ranks, time.monotonic()))
        for one in ranks:
            self._foresee(one, command)
        self._changed(run)
        errors = await asyncio.gather(*(self._ask(one, command) for one in ranks))
        error = next((error for error in errors if error), "")
        if error:
            raise ControlError(error)

    def _foresee(self, training: Training, command: Command) -> None:
        """Show at once what the training will say when its step has ended."""
        state = training.machine.command(command)
        if state.state in ("pausing", "stopping"):
            training.machine = state

    async def _ask(self, training: Training, command: Command) -> str:
        number = next(self._numbers)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        training.waiting[number] = future
        await training.send(Request(number, command))
        try:
            return await asyncio.wait_for(future, ANSWER)
        except asyncio.TimeoutError:
            return ""  # it is in a long step and will follow at its end
        finally:
            training.waiting.pop(number, None)

    async def set_pages(self, run: str, count: int) -> None:
        if self._pages.get(run, 0) != count:
            self._pages[run] = count
            await self._tell_pages(run)

    async def beat(self) -> None:
        """Let every training hear that we are there."""
        for run in list(self._ranks):
            await self._tell_pages(run)

    async def _tell_pages(self, run: str) -> None:
        for one in list(self._ranks.get(run, {}).values()):
            if one.open:
                await one.send(Pages(self._pages.get(run, 0)))
