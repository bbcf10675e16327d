"""What pauses a training, what lets it go on, and that nothing holds it for ever."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tensight.capture.companion import Companion
from tensight.control import (
    AddWatchpoint,
    ChangeWatchpoint,
    Command,
    Continue,
    Mute,
    NextNode,
    Pause,
    RemoveWatchpoint,
    Step,
    Terminate,
    launch,
    prompt,
)
from tensight.control.address import find_beside
from tensight.control.launch import bind
from tensight.control.meeting import Meeting
from tensight.control.messages import Agreed, Answer, Boundary, Dissolved, Meet, Request, Status, Wish
from tensight.errors import NameNotFound
from tensight.records import Finding, Hit, RunEnd, StepRecord, Watchpoint, Where
from tensight.session.controlling import Controlling, controlling
from tensight.session.settings import Settings


class FakeLink:
    """A link whose other end is the test: `script` is what happens each time the training waits."""

    def __init__(self, pages: int = 0) -> None:
        self.pages = pages
        self.pid = os.getpid()
        self.lost_since: float | None = None
        self.refused = ""
        self.sent: list[object] = []
        self.waits: list[float] = []
        self.script: deque[Callable[[], None] | Command] = deque()
        self.inbox: list[Request] = []
        self.closed = ""
        self.meeting = Meeting()

    @property
    def connected(self) -> bool:
        return self.lost_since is None

    def send(self, message: object) -> None:
        self.sent.append(message)

    def receive(self) -> list[Request]:
        came, self.inbox = self.inbox, []
        return came

    def wait(self, seconds: float, *also: int) -> None:
        self.waits.append(seconds)
        assert self.script, "the training waits and nobody will ever wake it"
        event = self.script.popleft()
        if callable(event):
            event()
        else:
            self.command(event)

    def command(self, command: Command) -> None:
        self.inbox.append(Request(len(self.sent), command))

    def close(self, ended: str) -> None:
        self.closed = ended

    @property
    def states(self) -> list[str]:
        return [one.machine.state for one in self.sent if isinstance(one, Status)]


class FakeDesk:
    def __init__(self) -> None:
        self.points: dict[int, Watchpoint] = {}

    @property
    def watchpoints(self) -> tuple[Watchpoint, ...]:
        return tuple(self.points.values())

    def add(self, watchpoint: Watchpoint) -> None:
        self.points[watchpoint.id] = watchpoint

    change = add

    def remove(self, id: int) -> None:
        if id not in self.points:
            raise NameNotFound(f"there is no watchpoint {id}.")
        del self.points[id]


class Bench:
    """A training with everything around it faked."""

    def __init__(self, pages: int = 0, **options: Any) -> None:
        self.link = FakeLink(pages)
        self.desk = FakeDesk()
        self.stopped: list[str] = []
        self.said: list[str] = []
        self.control = Controlling(cast("Any", self.link), self.desk, self.stopped.append, self.said.append, **options)
        self.control.started()

    def step(self, number: int, *, hits: tuple[Hit, ...] = (), findings: tuple[Finding, ...] = ()) -> None:
        self.control.step_began(number)
        self.control.step_ended(StepRecord(number, 0.0, 0.1, hits=hits), findings)


FINDING = Finding("dead_relu", "gradient-flow", "dead units", 0.9, 3, Where(module="fc"), "they are dead")


def hit(watchpoint: int = 1, **fields: Any) -> Hit:
    return Hit(3, watchpoint, "mine", "TL", "output", "fc", "output.0", 0, **fields)


@pytest.mark.parametrize(("pages", "pauses"), [(0, False), (1, True)])
def test_a_finding_pauses_only_while_a_page_looks_on(pages: int, pauses: bool) -> None:
    bench = Bench(pages)
    bench.link.script.append(Continue())
    bench.step(0, findings=(FINDING,))
    assert ("paused" in bench.link.states) is pauses
    assert bench.control.machine.state == "running"


@pytest.mark.parametrize(("pages", "pauses"), [(0, False), (1, True)])
def test_a_hit_of_the_users_own_watchpoint_pauses_only_while_a_page_looks_on(pages: int, pauses: bool) -> None:
    bench = Bench(pages)
    bench.link.script.append(Continue())
    bench.step(0, hits=(hit(),))
    assert ("paused" in bench.link.states) is pauses


def test_hits_of_the_recommended_set_and_what_could_not_be_judged_interrupt_nobody() -> None:
    bench = Bench(pages=1)
    bench.step(0, hits=(hit(recommended=True), hit(error="no_prev")))
    assert "paused" not in bench.link.states


@pytest.mark.parametrize("what", ["on_finding", "on_hit"])
def test_what_the_user_asked_for_goes_before_the_usual(what: str) -> None:
    happens: dict[str, Any] = {"findings": (FINDING,)} if what == "on_finding" else {"hits": (hit(),)}
    calm = Bench(pages=1, **{what: "continue"})
    calm.step(0, **happens)
    assert "paused" not in calm.link.states
    strict = Bench(pages=0, **{what: "stop"})
    strict.step(0, **happens)
    assert strict.stopped
    asked = Bench(pages=0, **{what: "pause"})
    asked.link.script.append(Continue())
    asked.step(0, **happens)
    assert "paused" in asked.link.states


@pytest.mark.parametrize(("action", "pauses"), [("pause", True), ("log", False), ("dump", False)])
def test_a_watchpoints_own_action_goes_before_everything(action: Any, pauses: bool) -> None:
    bench = Bench(pages=0 if pauses else 1)
    bench.desk.add(Watchpoint(1, "TL", action=action))
    bench.link.script.append(Continue())
    bench.step(0, hits=(hit(),))
    assert ("paused" in bench.link.states) is pauses


def test_a_muted_finding_interrupts_nobody() -> None:
    bench = Bench(pages=1)
    bench.link.command(Mute(FINDING.key))
    bench.step(0, findings=(FINDING,))
    assert "paused" not in bench.link.states


def test_a_pause_that_nobody_could_end_is_not_begun() -> None:
    bench = Bench(on_finding="pause")
    bench.link.lost_since = time.monotonic() - 3600
    bench.step(0, findings=(FINDING,))
    assert "paused" not in bench.link.states


def test_a_pause_in_the_first_moments_waits_for_the_server_that_was_just_started() -> None:
    bench = Bench(on_finding="pause", grace=3600.0)
    bench.link.lost_since = time.monotonic()

    def come() -> None:
        bench.link.lost_since = None

    bench.link.script.extend([come, Continue()])
    bench.step(0, findings=(FINDING,))
    assert "paused" in bench.link.states


def test_findings_of_the_baseline_interrupt_nobody() -> None:
    bench = Bench(pages=1, muted={FINDING.key})
    bench.step(0, findings=(FINDING,))
    assert "paused" not in bench.link.states


def test_a_paused_training_sleeps_until_it_is_woken() -> None:
    bench = Bench()
    bench.link.command(Pause())
    bench.link.script.extend([lambda: None, Step(2)])
    bench.step(0)
    assert bench.link.waits == [60.0, 60.0]
    bench.step(1)
    bench.link.script.append(Continue())
    bench.step(2)
    assert bench.link.states.count("paused") == 2


def test_a_paused_training_whose_server_is_gone_goes_on_after_the_grace_time() -> None:
    bench = Bench(grace=0.0)

    def lose() -> None:
        bench.link.lost_since = time.monotonic() - 1

    bench.link.command(Pause())
    bench.link.script.append(lose)
    bench.step(0)
    assert bench.control.machine.state == "running"
    assert "goes on" in bench.said[-1]


def leaves(bench: Bench, back: float = 3600.0) -> Callable[[], None]:
    """The last page is closed, and then so many seconds go by."""

    def leave() -> None:
        bench.link.pages = 0
        bench.control._look()
        lease = bench.control._lease
        assert lease.seen is not None
        bench.control._lease = msgspec.structs.replace(lease, seen=lease.seen - back)

    return leave


@pytest.mark.parametrize(("how", "state"), [("continue", "running"), ("stop", "stopping")])
def test_a_paused_training_whose_page_was_closed_does_not_wait_for_ever(how: Any, state: str) -> None:
    bench = Bench(pages=1, on_leave=how, leave=600.0)
    bench.link.script.append(leaves(bench))
    bench.step(0, findings=(FINDING,))
    assert bench.control.machine.state == state
    assert "no page is open any more" in bench.said[-2]
    assert "nobody was there for 600 s" in bench.said[-1]
    assert bench.stopped == (["nobody was there for 600 s"] if how == "stop" else [])


def test_a_paused_training_stops_with_its_server_where_that_was_asked_for() -> None:
    bench = Bench(grace=0.0, on_leave="stop")

    def lose() -> None:
        bench.link.lost_since = time.monotonic() - 1

    bench.link.command(Pause())
    bench.link.script.append(lose)
    bench.step(0)
    assert bench.stopped == ["the server is gone for 0 s"]


def test_a_training_that_shall_wait_waits_as_long_as_its_server_is_there() -> None:
    bench = Bench(pages=1, on_leave="pause", leave=0.0)
    bench.link.script.extend([leaves(bench), lambda: None, Continue()])
    bench.step(0, findings=(FINDING,))
    assert len(bench.link.waits) == 3
    assert all("nobody" not in said for said in bench.said)


def test_a_page_that_comes_back_in_time_finds_the_training_paused() -> None:
    bench = Bench(pages=1, leave=600.0)

    def return_() -> None:
        bench.link.pages = 1

    bench.link.script.extend([leaves(bench, 500.0), return_, lambda: None, Continue()])
    bench.step(0, findings=(FINDING,))
    assert bench.link.waits[:2] == [60.0, 60.0]
    assert len(bench.link.waits) == 4


def test_a_command_from_elsewhere_begins_the_time_anew() -> None:
    bench = Bench(pages=1, leave=600.0)
    bench.link.script.extend([leaves(bench, 599.0), Mute("other"), lambda: None, Continue()])
    bench.step(0, findings=(FINDING,))
    assert bench.link.waits[1] < 1.1
    assert bench.link.waits[2] == 60.0


def test_a_pause_that_was_asked_for_beforehand_waits_for_whoever_will_come() -> None:
    bench = Bench(on_finding="pause", leave=0.0)

    def come() -> None:
        bench.link.pages = 1

    def leave() -> None:
        bench.link.pages = 0

    bench.link.script.extend([lambda: None, lambda: None, come, leave])
    bench.step(0, findings=(FINDING,))
    assert len(bench.link.waits) == 4
    assert bench.control.machine.state == "running"


def test_a_terminal_that_drives_is_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    bench = Bench(leave=600.0)
    terminal = prompt.Terminal(bench.said.append, reader)
    monkeypatch.setattr(terminal, "_is_ours", lambda: True)
    bench.control._terminal = terminal

    def type_(text: bytes) -> Callable[[], None]:
        return lambda: cast("None", os.write(writer, text))

    bench.link.command(Pause())
    bench.link.script.append(type_(b"s 1\n"))
    bench.step(0)
    there: list[bool] = []
    bench.link.script.extend([lambda: there.append(bench.control._lease.there), type_(b"c\n")])
    bench.step(1)
    assert there == [True]
    bench.link.command(Pause())
    bench.link.script.extend([lambda: there.append(bench.control._lease.there), Continue()])
    bench.step(2)
    assert there == [True, False]  # what was paused from elsewhere is not the terminal's
    os.close(reader)
    os.close(writer)


def test_a_server_that_comes_back_in_time_finds_the_training_paused() -> None:
    bench = Bench(grace=3600.0)

    def lose() -> None:
        bench.link.lost_since = time.monotonic()

    def return_() -> None:
        bench.link.lost_since = None

    bench.link.command(Pause())
    bench.link.script.extend([lose, return_, Continue()])
    bench.step(0)
    assert len(bench.link.waits) == 3
    assert bench.link.waits[1] <= 3600.0


def test_terminate_stops_the_script_at_the_end_of_the_step() -> None:
    bench = Bench()
    bench.link.command(Pause())
    bench.link.script.append(Terminate())
    bench.step(0)
    assert bench.stopped == ["terminated from the page"]
    bench.control.ended(RunEnd("stopped", 0.0))
    assert bench.link.states[-1] == "ended"
    assert bench.link.closed == "stopped"


def test_nodes_are_asked_for_only_while_somebody_waits_for_one() -> None:
    bench = Bench()
    bench.link.command(Pause())
    bench.link.script.append(NextNode())
    bench.step(0)
    assert bench.control.wants_nodes
    bench.link.script.append(Continue())
    bench.control.node("conv.0", "forward")
    assert not bench.control.wants_nodes
    at = [one.machine for one in bench.link.sent if isinstance(one, Status) and one.machine.node == "conv.0"]
    assert at[0].state == "paused"


def test_watchpoints_are_made_changed_and_removed_while_it_runs() -> None:
    bench = Bench()
    bench.link.command(AddWatchpoint(Watchpoint(7, "TL", {"max_gt": 1.0})))
    bench.link.command(ChangeWatchpoint(Watchpoint(7, "TL", {"max_gt": 2.0})))
    bench.step(0)
    assert bench.desk.points[7].parameters == {"max_gt": 2.0}
    bench.link.command(RemoveWatchpoint(7))
    bench.step(1)
    assert bench.desk.points == {}
    told = [one.watchpoints for one in bench.link.sent if isinstance(one, Status) and one.watchpoints is not None]
    assert [len(one) for one in told] == [0, 1, 1, 0]


def test_a_command_that_cannot_be_followed_is_answered_with_the_reason() -> None:
    bench = Bench()
    bench.step(0)
    bench.link.command(Step(1))
    bench.link.command(RemoveWatchpoint(9))
    bench.step(1)
    errors = [one.error for one in bench.link.sent if isinstance(one, Answer)]
    assert "pause the training first" in errors[0]
    assert "no watchpoint 9" in errors[1]
    assert bench.control.machine.state == "running"


def test_a_child_forked_from_the_training_never_waits() -> None:
    bench = Bench(on_finding="pause")
    bench.link.pid = -1
    bench.step(0, findings=(FINDING,))
    bench.control.node("conv.0", "forward")
    bench.control.ended(RunEnd("finished", 0.0))
    assert bench.link.waits == []
    assert bench.link.closed == ""


def test_a_refused_token_is_said_once() -> None:
    bench = Bench()
    bench.link.refused = "the server at here refused the token"
    bench.step(0)
    bench.step(1)
    assert [line for line in bench.said if "refused" in line] == [bench.said[0]]


def test_a_page_that_cannot_be_started_is_said_and_the_training_goes_on(tmp_path: Any) -> None:
    with bind("127.0.0.1", None) as taken:
        port = taken.getsockname()[1]
        settings = Settings(host="127.0.0.1", port=port, page=True)
        session = SimpleNamespace(settings=settings, folder=tmp_path, pid=os.getpid(), recorder=None)
        said: list[str] = []
        companion = controlling(cast("Any", session), said.append)
    assert type(companion) is Companion
    assert str(port) in said[0]
    assert "recorded all the same" in said[0]


def test_a_session_with_a_page_leaves_its_address_for_the_other_ranks_and_tidies_up(tmp_path: Any) -> None:
    recorder = SimpleNamespace(checker=SimpleNamespace(watchpoints=()), stop=lambda reason: None)
    session = SimpleNamespace(settings=Settings(page=True), folder=tmp_path, pid=os.getpid(), recorder=recorder)
    said: list[str] = []
    companion = controlling(cast("Any", session), said.append)
    address = find_beside(tmp_path)
    assert address is not None
    try:
        assert address.page(f"/run/{tmp_path.name}") in said[0]
        companion.started()
        companion.ended(RunEnd("finished", 0.0))
        assert find_beside(tmp_path) is None
    finally:
        launch.stop(address)


def test_every_step_is_heard_on_the_way_to_a_pause_that_was_asked_for() -> None:
    bench = Bench()
    bench.step(0)
    assert not bench.control.wants_steps  # most may be slept through
    bench.link.command(Pause())
    bench.link.script.append(Step(500))
    bench.step(1)
    assert bench.control.wants_steps
    assert not bench.control.wants_nodes
    bench.step(491)
    assert bench.control.wants_nodes  # the last ones before the pause are watched whole
    bench.link.script.append(Continue())
    bench.step(501)
    assert bench.link.states.count("paused") == 2
    assert not bench.control.wants_steps


def test_one_of_several_ranks_only_wishes_to_pause() -> None:
    bench = Bench(pages=1, ranks=lambda: 2)
    bench.step(0, findings=(FINDING,))
    assert "paused" not in bench.link.states
    assert [one.reason for one in bench.link.sent if isinstance(one, Wish)] == ["finding: dead units"]


def test_several_ranks_pause_where_they_have_agreed_to() -> None:
    bench = Bench(ranks=lambda: 2)
    bench.step(0)
    assert not asleep_or_no(bench, Meet(1, 4)).yes  # it may sleep through the steps that follow
    bench.step(1)
    assert asleep_or_no(bench, Meet(2, 4)).yes
    bench.step(2)
    bench.step(3)
    assert "paused" not in bench.link.states
    bench.link.script.extend([lambda: agreed(bench, 2), Continue()])
    bench.step(4)
    assert bench.control.machine.state == "running"
    told = [one.machine for one in bench.link.sent if isinstance(one, Status) and one.machine.state == "paused"]
    assert [(one.step, one.reason) for one in told] == [(4, "paused by hand")] * len(told)
    assert told


def test_a_rank_goes_on_when_the_others_cannot_come() -> None:
    bench = Bench(ranks=lambda: 2)
    bench.step(0)
    asleep_or_no(bench, Meet(1, 2))
    bench.step(1)
    assert asleep_or_no(bench, Meet(2, 2)).yes
    bench.link.script.append(lambda: cast("None", bench.link.meeting.hear(Dissolved(2))))
    bench.step(2)
    assert "paused" not in bench.link.states


def test_a_rank_that_loses_its_link_while_ranks_agree_does_not_hold() -> None:
    bench = Bench(ranks=lambda: 2)
    bench.step(0)
    asleep_or_no(bench, Meet(1, 2))
    bench.step(1)
    assert asleep_or_no(bench, Meet(2, 2)).yes

    def lose() -> None:
        bench.link.lost_since = time.monotonic()

    bench.link.script.append(lose)
    bench.step(2)
    assert "paused" not in bench.link.states
    refused = bench.link.meeting.hear(Agreed(2, "too late"))
    assert refused is not None
    assert not refused.yes


def asleep_or_no(bench: Bench, meet: Meet) -> Boundary:
    answer = bench.link.meeting.hear(meet)
    assert answer is not None
    return answer


def agreed(bench: Bench, round: int) -> None:
    assert bench.link.meeting.hear(Agreed(round, "paused by hand")) is None
