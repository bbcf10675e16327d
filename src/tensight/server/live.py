"""Tells open pages that something has changed. What it was they ask for themselves, from where they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from tensight.errors import UNDECODABLE, TensightError
from tensight.server.answers import LiveNews
from tensight.server.library import Library
from tensight.server.recording import Recording
from tensight.server.trainings import BEAT, Trainings
from tensight.server.wire import dumps

logger = logging.getLogger(__name__)

SLOW = 5.0  # seconds in which a page must take what it is told
LOOK = 0.4  # seconds between looks into a run directory that somebody looks at


class Page:
    """An open page: which run it shows, and what it was told last."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.run = ""
        self.told: LiveNews | None = None


class Live:
    """Follows the runs that pages look at, and tells the pages."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.trainings = Trainings(library, self._changed)
        self.pages: set[Page] = set()
        self.wake = asyncio.Event()
        self.instance = secrets.token_hex(8)  # sequence numbers are ours: another server counts anew
        self.served = False  # whether there ever was a page
        self.left = asyncio.Event()  # set when the last page has gone
        self._states: dict[str, tuple[str, str | None]] = {}  # what was told of each run: its state and node
        self._telling: set[asyncio.Task[None]] = set()

    async def serve(self, socket: WebSocket) -> None:
        """Talk with one page: it says which run it shows, we say when there is news."""
        await socket.accept()
        page = Page(socket)
        self.pages.add(page)
        self.served = True
        try:
            await socket.send_text(dumps({"instance": self.instance}).decode())
            while True:
                message = msgspec.json.decode(await socket.receive_text())
                page.run = str(message.get("run", "")) if isinstance(message, dict) else ""
                page.told = None
                await self._count()
                self.wake.set()
        except (WebSocketDisconnect, *UNDECODABLE, RuntimeError, KeyError):
            pass
        finally:
            self.pages.discard(page)
            if not self.pages:
                self.left.set()
            await self._count()

    async def follow(self) -> None:
        """The server's own loop: look, tell, beat."""
        beaten = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wake.wait(), LOOK if self.pages else BEAT)
                await asyncio.sleep(0.05)  # a quick training tells often: once is enough for many
            self.wake.clear()
            try:
                await self._tell_all()
                if clock() - beaten >= BEAT:
                    beaten = clock()
                    await self.trainings.beat()
            except Exception:  # a loop that ended would leave every page with an old state
                logger.exception("pages could not be told")

    async def _tell_all(self) -> None:
        for run in {page.run for page in self.pages if page.run}:
            await self._look(run)
        runs = dumps({"runs": self.trainings.runs}).decode()
        for page in [page for page in self.pages if not page.run]:
            await self._send(page, runs)

    async def _look(self, run: str) -> None:
        try:
            recording = self.library.find(run)
        except (TensightError, OSError):
            return  # the page has been told when it asked for the run
        try:
            await run_in_threadpool(recording.refresh)
        except (TensightError, OSError):
            pass  # what the training does is told all the same
        except Exception:  # one run that cannot be followed must not end the others
            logger.exception("run %s could not be followed", run)
        await self._tell(run, recording)

    def _changed(self, run: str) -> None:
        """Something was heard of a training. That it holds or goes on is told at once, everything else soon."""
        self.wake.set()
        control = self.trainings.control(run)
        state = ("", None) if control is None else (control.state, control.node)
        if self._states.get(run) != state:
            self._states[run] = state
            task = asyncio.create_task(self._tell_state(run))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_state(self, run: str) -> None:
        with contextlib.suppress(TensightError, OSError):
            await self._tell(run, self.library.find(run))

    async def _tell(self, run: str, recording: Recording) -> None:
        """Tell the pages of a run what is known of it, without a look into its folder."""
        news = LiveNews(run, recording.sequence, recording.structure, recording.about, self.trainings.control(run))
        for page in [page for page in self.pages if page.run == run]:
            if page.told != news:
                page.told = news
                await self._send(page, dumps(news).decode())

    async def _send(self, page: Page, text: str) -> None:
        try:
            await asyncio.wait_for(page.socket.send_text(text), SLOW)
        except asyncio.TimeoutError:
            self.pages.discard(page)  # a page that takes nothing must not hold up the others; it will come back
            with contextlib.suppress(Exception):
                await asyncio.wait_for(page.socket.close(1013), SLOW)
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass

    async def _count(self) -> None:
        counts = Counter(page.run for page in self.pages if page.run)
        for run in {*counts, *self.trainings.runs}:
            await self.trainings.set_pages(run, counts.get(run, 0))
