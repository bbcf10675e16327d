"""The trainings that are connected, and the pages that look on. Lives in the server's event loop alone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket as sockets
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from tensight.control.commands import Command, Continue, Driving, Pause, Terminate
from tensight.control.machine import Machine
from tensight.control.messages import (
    BY_HAND,
    WIRE,
    Agreed,
    Answer,
    Boundary,
    Dissolved,
    Goodbye,
    Hello,
    Meet,
    Pages,
    Request,
    Status,
    Wish,
    encode,
    read_from_training,
)
from tensight.errors import UNDECODABLE, ControlError, UsageError
from tensight.records.audit import Who
from tensight.server.agreeing import agree
from tensight.server.answers import Control, RankRow
from tensight.server.library import Library

BEAT = 4.0  # seconds between heartbeats of the server
ANSWER = 10.0  # a training in the middle of a long step answers at its end; then the page has long been told 'asked'
SLOW = 5.0  # seconds in which a training's link must take what it is sent
LOST_RANK = 20.0  # seconds after which the others of a rank that has lost us go on: it goes on by itself soon
MEETS = 30.0  # seconds in which ranks that have agreed on a step have all ended it, or a long step is under way


class Training:
    """One connected rank."""

    def __init__(self, socket: WebSocket, hello: Hello, client: str = "") -> None:
        self.socket = socket
        self.hello = hello
        self.client = client or f"{hello.host}:{hello.pid}"
        self.machine = Machine()
        self.heard = time.monotonic()
        self.open = True
        self.waiting: dict[int, tuple[asyncio.Future[str], Request, Machine]] = {}
        self.boundaries: asyncio.Queue[Boundary] = asyncio.Queue()

    async def send(self, message: Request | Pages | Meet | Agreed | Dissolved) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self.socket.send_bytes(encode(message)), SLOW)

    @property
    def live(self) -> bool:
        return self.open and self.machine.live

    @property
    def is_dead(self) -> bool:
        """Whether its process is surely gone: then nobody waits for the others."""
        if self.hello.host != sockets.gethostname():
            return False
        try:
            os.kill(self.hello.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


class Trainings:
    """Connected ranks by run. `changed` is called when a run's state has changed."""

    def __init__(self, library: Library, changed: Callable[[str], None]) -> None:
        self._library = library
        self._changed = changed
        self._ranks: dict[str, dict[int, Training]] = {}
        self._pages: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._meeting: dict[str, asyncio.Task[bool]] = {}  # runs whose ranks agree just now
        self._met: set[str] = set()  # runs whose ranks have agreed to hold and were not let go on since
        self._wishes: dict[str, Wish] = {}  # what one rank has asked for and was not granted yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[str, Control] = {}  # the last state that was told, with its version

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
            training = Training(socket, hello, _client(socket, hello))
            run = self._library.add(Path(hello.run_dir)).id
            before = self._join(run, training)
            await training.send(Pages(self._pages.get(run, 0)))
            while True:
                message = read_from_training(await socket.receive_bytes())
                self._hear(run, training, message)
                if before is not None and isinstance(message, Status):
                    await self._resume(before, training)
                    before = None
                self._changed(run)
        except (WebSocketDisconnect, *UNDECODABLE, UsageError, KeyError, RuntimeError):
            pass
        finally:
            if training is not None:
                training.open = False
                training.machine = training.machine.link_broken()
                training.heard = time.monotonic()
                self._changed(run)

    def _join(self, run: str, training: Training) -> Training | None:
        """Take a rank in; the same process as it was connected before, if it was."""
        ranks = self._ranks.setdefault(run, {})
        hello = training.hello
        before = ranks.get(hello.rank)
        # Two processes that call themselves the same rank: a launcher that does not train gives way to its child.
        if before is None or not before.open or before.machine.state == "waiting":
            ranks[training.hello.rank] = training
        same = (
            before is not None and before.hello.pid == training.hello.pid and before.hello.host == training.hello.host
        )
        if same:
            ranks[training.hello.rank] = training
        return before if same else None

    async def _resume(self, before: Training, training: Training) -> None:
        """A link was broken and is there again: what was asked for meanwhile is asked again."""
        for number, (future, request, machine) in before.waiting.items():
            now = training.machine
            asked_again = isinstance(request.command, Continue | Pause | Terminate) or not isinstance(
                request.command, Driving
            )
            # A step that was made already must not be made twice: it is where it was, or it has followed.
            if asked_again or (now.state, now.step, now.node) == (machine.state, machine.step, machine.node):
                training.waiting[number] = (future, request, machine)
                await training.send(request)
            elif not future.done():
                future.set_result("")
        before.waiting = {}

    def _hear(self, run: str, training: Training, message: object) -> None:
        if isinstance(message, Status):
            if training.machine.state == "paused" and message.machine.state != "paused":
                self._met.discard(run)
            training.machine = message.machine
        elif isinstance(message, Answer):
            future, _, _ = training.waiting.pop(message.id, (None, None, None))
            if future is not None and not future.done():
                future.set_result(message.error)
        elif isinstance(message, Boundary):
            training.boundaries.put_nowait(message)
            if run in self._met and not message.yes:  # it has given up waiting before all had agreed
                self._met.discard(run)
                self._keep(asyncio.create_task(self._dissolve(run, message.round)))
        elif isinstance(message, Wish):
            self._wishes.setdefault(run, message)
        elif isinstance(message, Goodbye):
            training.machine = training.machine.over()
        training.heard = time.monotonic()
        if run in self._wishes:
            self._grant(run)

    def _grant(self, run: str) -> None:
        """Have the ranks meet because one of them wishes it, unless they hold already."""
        wish = self._wishes[run]
        held = [one.machine.step for one in self._live(run) if one.machine.state == "paused"]
        if held and max(held) >= wish.step:
            del self._wishes[run]  # they do
        elif not held and run not in self._met:  # who was paused before the wish goes on, but has not said so yet
            del self._wishes[run]
            if not self._missing(run):
                self._meet(run, wish.reason)

    @property
    def runs(self) -> list[str]:
        return [run for run, ranks in self._ranks.items() if any(one.open for one in ranks.values())]

    def control(self, run: str) -> Control | None:
        """What the trainings of a run do now. Its version grows with every change, so that a page that hears of two
        of them in the wrong order keeps the later one."""
        ranks = self._ranks.get(run)
        if not ranks:
            return None
        there = [one for one in ranks.values() if one.live] or list(ranks.values())
        order = ("paused", "stopping", "pausing", "waiting", "running", "lost", "ended")
        speaker = min(there, key=lambda one: (order.index(one.machine.state), one.hello.rank))
        machine, hello = speaker.machine, speaker.hello
        state = machine.state
        if (run in self._meeting or run in self._met) and state in ("running", "waiting"):
            state = "pausing"
        elif state == "paused" and any(one.machine.state == "running" for one in there):
            state = "pausing"  # the others are on their way to the same step
        now = Control(
            state=state,
            step=machine.step,
            node=machine.node,
            phase=machine.phase,
            reason=machine.reason,
            client=speaker.client,
            device=hello.device,
            ranks=tuple(_row(one) for _, one in sorted(ranks.items())),
        )
        told = self._told.get(run)
        if told is None or msgspec.structs.replace(now, version=told.version) != told:
            told = msgspec.structs.replace(now, version=0 if told is None else told.version + 1)
            self._told[run] = told
        return told

    def connected(self, run: str) -> bool:
        return any(one.live for one in self._ranks.get(run, {}).values())

    async def command(self, run: str, command: Command, who: Who = "page") -> None:
        """Have every rank follow a command; a ControlError tells why one cannot."""
        ranks = self._live(run)
        if not ranks:
            raise ControlError("No training is connected: this run is over, or its connection is lost.")
        for one in ranks:
            one.machine.command(command)  # refuses here what the training would refuse
        if self._expected(run) > 1 and isinstance(command, Pause | Terminate):
            await self._together(run, command)
            if isinstance(command, Pause):
                return
            ranks = self._live(run)
        for one in ranks:
            self._foresee(one, command)
        self._changed(run)
        errors = await asyncio.gather(*(self._ask(one, command, who) for one in ranks))
        error = next((error for error in errors if error), "")
        if error:
            raise ControlError(error)

    def _live(self, run: str) -> list[Training]:
        """The ranks that are there; a launcher that only holds the place of its child is none."""
        count = self._expected(run)
        ranks = self._ranks.get(run, {}).values()
        return [one for one in ranks if one.live and (one.machine.state != "waiting" or one.hello.ranks == count)]

    def _missing(self, run: str) -> list[int]:
        """Ranks that still train, as far as known, and are not connected."""
        there = {one.hello.rank for one in self._live(run)}
        over = {one.hello.rank for one in self._ranks.get(run, {}).values() if one.machine.state == "ended"}
        return sorted(set(range(self._expected(run))) - there - over)

    def _expected(self, run: str) -> int:
        """How many ranks the training has."""
        return max((one.hello.ranks for one in self._ranks.get(run, {}).values()), default=1)

    async def _together(self, run: str, command: Command) -> None:
        """Have all ranks hold behind one step; for an end, too, so that none waits for another in a collective."""
        if not self._some_paused(run) and run not in self._met:
            missing = self._missing(run)
            if missing and isinstance(command, Terminate):
                return  # nothing to save: who is left ends at its next step
            if missing:
                who = ", ".join(str(one) for one in missing)
                raise ControlError(f"Rank {who} is not connected: without it the others would wait in a collective.")
            met = await self._meet(run, BY_HAND)
            if not met and isinstance(command, Pause):
                raise ControlError("The ranks could not agree on a step to pause at; they go on. Try again.")
        if isinstance(command, Terminate):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_paused(run), MEETS)

    def _some_paused(self, run: str) -> bool:
        """Whether the ranks are paused, or are about to be: each stops by itself where the others do."""
        return any(one.machine.state == "paused" for one in self._live(run))

    async def _all_paused(self, run: str) -> None:
        while any(one.machine.state not in ("paused", "stopping") for one in self._live(run)):
            await asyncio.sleep(0.02)

    def _meet(self, run: str, reason: str) -> asyncio.Task[bool]:
        """The agreement that is under way, or a new one."""
        task = self._meeting.get(run)
        if task is None:
            task = asyncio.create_task(agree(lambda: self._live(run), reason))
            self._meeting[run] = task
            task.add_done_callback(lambda done: self._agreed(run, done))
            self._changed(run)
        return task

    def _agreed(self, run: str, done: asyncio.Task[bool]) -> None:
        self._meeting.pop(run, None)
        if not done.cancelled() and done.exception() is None and done.result():
            self._met.add(run)
        self._changed(run)

    async def _dissolve(self, run: str, round: int) -> None:
        for one in self._live(run):
            await one.send(Dissolved(round))
            await one.send(Request(next(self._numbers), Continue(), "tensight"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """A task that nobody waits for must be held by somebody."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _foresee(self, training: Training, command: Command) -> None:
        """Show at once what the training will say when its step has ended."""
        state = training.machine.command(command)
        if state.state in ("pausing", "stopping"):
            training.machine = state

    async def _ask(self, training: Training, command: Command, who: Who) -> str:
        number = next(self._numbers)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        request = Request(number, command, who)
        training.waiting[number] = (future, request, training.machine)
        await training.send(request)
        try:
            return await asyncio.wait_for(future, ANSWER)
        except asyncio.TimeoutError:
            # it is in a long step and will follow at its end, or its link is broken and does not come back
            return "" if training.open else "the training is gone"
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
            await self._release(run)

    async def _release(self, run: str) -> None:
        """A rank that has lost us goes on by itself after its grace time: the others must not leave it waiting."""
        now = time.monotonic()
        lost = [one for one in self._ranks[run].values() if one.machine.state == "lost" and not one.is_dead]
        if any(now - one.heard > LOST_RANK for one in lost):
            for one in self._live(run):
                if one.machine.state == "paused":
                    await one.send(Request(next(self._numbers), Continue(), "tensight"))

    async def _tell_pages(self, run: str) -> None:
        for one in list(self._ranks.get(run, {}).values()):
            if one.open:
                await one.send(Pages(self._pages.get(run, 0)))


def _client(socket: WebSocket, hello: Hello) -> str:
    """Where a training is: its address as we see it, and its process."""
    address = socket.client
    where = f"{address.host}:{address.port}" if address is not None else hello.host
    return f"{where} · {hello.host} · process {hello.pid}"


def _row(one: Training) -> RankRow:
    machine = one.machine
    return RankRow(one.hello.rank, machine.state, machine.step, one.client, one.hello.device, machine.node)
