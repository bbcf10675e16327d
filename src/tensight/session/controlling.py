"""Connects a training to whoever controls it: pauses it, steps it, changes its watchpoints, stops it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.control import address, launch, prompt
from tensight.control.commands import (
    AddWatchpoint,
    ChangeWatchpoint,
    Command,
    Continue,
    Driving,
    Mute,
    RemoveWatchpoint,
)
from tensight.control.lease import Lease, patience
from tensight.control.link import Link
from tensight.control.machine import Machine
from tensight.control.messages import BY_HAND, Answer, Hello, Request, Status, Wish
from tensight.errors import TensightError
from tensight.records import Finding, Hit, RunEnd, RunInfo, StepRecord, Watchpoint
from tensight.records.audit import Who
from tensight.session import auditing
from tensight.session.settings import Policy, rank, ranks

if TYPE_CHECKING:
    from tensight.session.session import Session

GRACE = 30.0
"""Seconds a paused training waits for a server that is gone before it goes on by itself."""

UNSURE = 5.0
"""Seconds one of several ranks holds without knowing that the others do; a collective waits longer than that."""

WHOLE = 10
"""Steps before a pause that was asked for are watched whole: they are what the user is about to look at."""

TELL_EVERY = 0.2
"""A training of a thousand steps a second tells where it is five times a second."""


class Desk(Protocol):
    """Who holds the watchpoints of the running training."""

    @property
    def watchpoints(self) -> Sequence[Watchpoint]: ...
    def add(self, watchpoint: Watchpoint) -> None: ...
    def change(self, watchpoint: Watchpoint) -> None: ...
    def remove(self, id: int) -> None: ...


class RecorderDesk:
    """The watchpoints of a recorder: checked from the next step on, and written to the run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def watchpoints(self) -> Sequence[Watchpoint]:
        return self._recorder.checker.watchpoints

    def add(self, watchpoint: Watchpoint) -> None:
        self._recorder.checker.add(watchpoint)
        self._recorder.writer.watchpoint(watchpoint)

    def change(self, watchpoint: Watchpoint) -> None:
        self._recorder.checker.replace(watchpoint)
        self._recorder.writer.watchpoint(watchpoint)

    def remove(self, id: int) -> None:
        self._recorder.checker.remove(id)
        self._recorder.writer.watchpoint_removed(id)


def controlling(session: Session, say: Callable[[str], None]) -> Companion:
    """The companion that the settings ask for: with a page of its own, or with a server that waits for trainings.

    The first rank starts the page and leaves its address in the run's folder, where the other ranks find it. A page
    that cannot be started is no reason not to train.
    """
    try:
        return _controlling(session, say)
    except (TensightError, OSError) as error:
        say(f"there is no page: {str(error).rstrip('.')}; the run is recorded all the same")
        return Companion()


def _controlling(session: Session, say: Callable[[str], None]) -> Controlling:
    settings = session.settings
    info = RunInfo(session.folder.name, settings.command, time.time(), rank=rank(), ranks=ranks(), pid=session.pid)
    asked = settings.server or address.from_environment()
    where: address.Address | Callable[[], address.Address | None]
    hello: Hello | Callable[[], Hello] = Hello.of(info, session.folder)
    if asked:
        from tensight.session.sending import Sending

        where = address.find(asked)
        if info.rank == 0:
            trouble = launch.unanswered(where)
            said = f"no server answers at {asked} ({trouble}): the training goes on and is recorded, and asks again"
            say(said if trouble else f"server  {asked}: this run is in the list of its page")
        hello = Sending(where, session.folder, info, say).hello
    elif info.rank == 0:
        where = launch.start(
            session.folder, settings.host, settings.port, tls_cert=settings.tls_cert, tls_key=settings.tls_key
        )
        address.leave_beside(where, session.folder)
        say(f"page    {where.page(f'/run/{quote(session.folder.name)}')}")
        say(f"tunnel  {where.tunnel}")
        if warning := launch.warning_of(settings.host, settings.tls_cert):
            say(warning)
    else:
        where = partial(address.find_beside, session.folder)
    return Controlling(
        Link(where, hello).start(),
        RecorderDesk(session.recorder),
        session.recorder.stop,
        say,
        on_finding=None if settings.on_finding == "auto" else settings.on_finding,
        on_hit=None if settings.on_hit == "auto" else settings.on_hit,
        on_leave=settings.on_leave,
        ask_terminal=info.rank == 0,
        muted=settings.muted,
        ranks=lambda: info.ranks,
        tidy=partial(launch.tidy, session.folder) if info.rank == 0 else lambda: None,
    )


class Controlling(Companion):
    """A companion that holds the training's state and follows commands in the training's own thread.

    `stop` ends the script cleanly; it is called at a step's end and may raise what the session ends a script with.
    `on_finding` and `on_hit` None mean: pause while a page looks on, otherwise go on. `on_leave` is what a paused
    training does when nobody has been there for `leave` seconds: `pause` means that it waits for as long as it takes.
    """

    def __init__(
        self,
        link: Link,
        desk: Desk,
        stop: Callable[[str], None],
        say: Callable[[str], None] = lambda text: None,
        *,
        on_finding: Policy | None = None,
        on_hit: Policy | None = None,
        on_leave: Policy = "continue",
        grace: float = GRACE,
        leave: float | None = None,
        ask_terminal: bool = False,
        muted: Collection[str] = (),
        tidy: Callable[[], None] = lambda: None,
        ranks: Callable[[], int] = lambda: 1,
    ) -> None:
        self.machine = Machine()
        self.wants_nodes = False
        self.wants_steps = False
        self.paused_seconds = 0.0
        self._link = link
        self._desk = desk
        self._stop = stop
        self._say = say
        self._on_finding = on_finding
        self._on_hit = on_hit
        self._on_leave = on_leave
        self._grace = grace
        self._leave = patience() if leave is None else leave
        self._lease = Lease()
        self._unasked = False  # whether the pause was asked for beforehand, and so perhaps while nobody was there
        self._typed = False  # whether the terminal is what drives: it let the training run to where it pauses
        self._terminal = prompt.Terminal(say) if ask_terminal and sys.stdin.isatty() else None
        self._muted = set(muted)
        self._told = 0.0
        self._said_refused = False
        self._tidy = tidy
        self._ranks = ranks

    def started(self) -> None:
        self._tell(watchpoints=True)

    def step_began(self, step: int) -> None:
        if self.machine.state == "waiting" and self._here():
            self._follow()
            self.machine = self.machine.step_began(step)
            self._tell()

    def node(self, node: str, phase: str) -> None:
        if not self._here():
            return
        before = self.machine
        self.machine = before.at_node(node, phase)
        if self.machine is not before:
            self._hold()

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if not self._here():
            return
        self._follow()
        pause, stop = self._interruption(record, findings)
        if self._ranks() > 1:
            pause = self._with_others(record.step, pause)
        before = self.machine.state
        self._unasked = bool(pause) and pause != BY_HAND and self._pauses_unattended()
        self.machine = self.machine.step_ended(record.step, pause, stop)
        if pause and self.machine.state == "paused":
            auditing.note("page" if pause == BY_HAND else "tensight", "pause", pause)
        self._hold()
        now = time.monotonic()
        if self.machine.state != before or now - self._told >= TELL_EVERY:
            self._tell()
        self._settle()
        if self.machine.state == "stopping":
            self._stop(self.machine.reason)

    def _with_others(self, step: int, pause: str) -> str:
        """Why to pause here together with the other ranks; '' when they do not meet behind this step."""
        if pause:
            self._link.send(Wish(step, pause))  # a rank that held alone would leave the others inside a collective
        meeting = self._link.meeting
        meeting.ended(step)
        given_up = time.monotonic() + UNSURE
        while meeting.waiting and self._link.connected and time.monotonic() < given_up:
            self._link.wait(max(0.0, given_up - time.monotonic()))
            self._follow()
        return meeting.leave()

    def _settle(self) -> None:
        """What has to be heard of the steps that follow."""
        goal = self.machine.until
        near = goal is not None and goal - self.machine.step <= WHOLE
        self.wants_nodes = self.machine.wants_nodes or near
        self.wants_steps = goal is not None or self._link.meeting.asked
        self._link.meeting.listen(self.wants_steps)

    def ended(self, end: RunEnd) -> None:
        if not self._here():
            return
        self.machine = self.machine.over()
        self._tell()
        self._link.close(end.ended)
        self._tidy()

    def _here(self) -> bool:
        """Whether this is the training itself and not a child forked from it."""
        return os.getpid() == self._link.pid

    def _interruption(self, record: StepRecord, findings: Sequence[Finding]) -> tuple[str, str]:
        """Why to pause, and why to stop, at the end of this step; '' when there is no reason."""
        wanted: list[tuple[Policy, str]] = []
        usual: Policy = "pause" if self._link.pages else "continue"
        for finding in findings:
            if not finding.muted and finding.key not in self._muted:
                wanted.append((self._on_finding or usual, f"finding: {finding.title}"))
        actions = {watchpoint.id: watchpoint.action for watchpoint in self._desk.watchpoints} if record.hits else {}
        for hit in record.hits:
            if hit.recommended or hit.error is not None:
                continue
            action = actions.get(hit.watchpoint, "")
            if action == "pause":
                wanted.append(("pause", _in_words(hit)))
            elif not action:
                wanted.append((self._on_hit or usual, _in_words(hit)))
        pause = next((reason for policy, reason in wanted if policy == "pause"), "")
        stop = next((reason for policy, reason in wanted if policy == "stop"), "")
        if pause and not self._is_within_reach():
            pause = ""  # nobody could let it go on
        return pause, stop

    def _hold(self) -> None:
        """Sleep while paused, following what is commanded."""
        if not self._is_paused():
            return
        began = time.monotonic()
        self._say(_where(self.machine))
        self._tell()
        terminal = self._terminal
        if terminal is not None:
            terminal.ask()
        self._lease = Lease(self._leave, None if self._unasked else began)
        self._unasked = False
        self._look()
        while self._is_paused():
            if terminal is None:
                self._link.wait(self._patience())
            else:
                self._link.wait(self._patience(), *terminal.descriptors)
                command = terminal.command()
                if command is not None:
                    self._obey(command, "terminal")
            self._follow()
            self._look()
            if self._is_paused():
                self._abandon()
        self._link.meeting.forget()
        self._settle()
        self.paused_seconds += time.monotonic() - began
        self._tell()

    def _look(self) -> None:
        """See whether somebody is there."""
        before, now = self._lease, time.monotonic()
        # of several ranks only the first has a terminal: the others would go on without it
        typing = self._typed and self._ranks() == 1 and self._terminal is not None and bool(self._terminal.descriptors)
        self._lease = before.at(now, there=self._link.pages > 0 or typing)
        if before.there and not self._lease.there and self._link.connected and self._on_leave != "pause":
            what = "stops" if self._on_leave == "stop" else "goes on"
            self._say(f"no page is open any more: the training {what} in {self._leave:.0f} s, unless one is opened")

    def _abandon(self) -> None:
        """Go on, or stop, when nobody could end this pause any more."""
        now, lost = time.monotonic(), self._link.lost_since
        if lost is not None and now - lost >= self._grace:
            why = f"the server is gone for {self._grace:.0f} s"
        elif self._on_leave != "pause" and self._lease.left(now) <= 0:
            why = f"nobody was there for {self._leave:.0f} s"
        else:
            return
        stop = self._on_leave == "stop"
        self._say(f"{why}: the training {'stops' if stop else 'goes on'}")
        self.machine = self.machine.abandoned(why if stop else "")
        if not stop:
            auditing.note("tensight", "continue", why)

    def _pauses_unattended(self) -> bool:
        """Whether a pause may have been asked for beforehand: then it waits for whoever will come."""
        return "pause" in (self._on_finding, self._on_hit) or any(
            one.action == "pause" for one in self._desk.watchpoints
        )

    def _is_paused(self) -> bool:
        return self.machine.state == "paused"

    def _is_within_reach(self) -> bool:
        """Whether somebody can let a paused training go on: a server that has just been started may yet connect."""
        lost = self._link.lost_since
        return lost is None or (not self._link.refused and time.monotonic() - lost < self._grace)

    def _patience(self) -> float:
        """How long to sleep: until the server, or whoever was there, is gone for too long."""
        now, lost = time.monotonic(), self._link.lost_since
        grace = math.inf if lost is None else self._grace - (now - lost)
        leave = math.inf if self._on_leave == "pause" else self._lease.left(now)
        return max(0.05, min(60.0, grace, leave))

    def _follow(self) -> None:
        """Follow every command that has come."""
        for message in self._link.receive():
            if isinstance(message, Request):
                self._lease = self._lease.spoken(time.monotonic())
                self._link.send(Answer(message.id, self._obey(message.command, message.who)))
        if self._link.refused and not self._said_refused:
            self._said_refused = True
            self._say(f"the page cannot control this training: {self._link.refused}")

    def _obey(self, command: Command, who: Who) -> str:
        """Follow one command; the answer is '' or why not."""
        try:
            self.machine = self.machine.command(command)
            if isinstance(command, AddWatchpoint):
                self._desk.add(command.watchpoint)
            elif isinstance(command, ChangeWatchpoint):
                self._desk.change(command.watchpoint)
            elif isinstance(command, RemoveWatchpoint):
                self._desk.remove(command.id)
            elif isinstance(command, Mute):
                self._mute(command)
        except TensightError as error:
            return str(error)
        if isinstance(command, Driving):
            self._typed = who == "terminal" and not isinstance(command, Continue)
        auditing.note_command(who, command)
        self._tell(watchpoints=isinstance(command, AddWatchpoint | ChangeWatchpoint | RemoveWatchpoint))
        return ""

    def _mute(self, command: Mute) -> None:
        if command.muted:
            self._muted.add(command.key)
        else:
            self._muted.discard(command.key)

    def _tell(self, *, watchpoints: bool = False) -> None:
        self._told = time.monotonic()
        now = tuple(self._desk.watchpoints) if watchpoints else None
        self._link.send(Status(self.machine, now))


def _where(machine: Machine) -> str:
    if machine.node is None:
        return f"paused after step {machine.step}: {machine.reason}"
    return f"paused in step {machine.step + 1} at {machine.node or 'the whole network'}, {machine.phase}"


def _in_words(hit: Hit) -> str:
    place = f"{hit.node or 'the network'} {hit.slot}".strip()
    return f"watchpoint {hit.name or hit.condition} hit on {place}"
