"""The state of a training, by itself."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tensight.control import Continue, Machine, Mute, NextNode, Pause, RunToNode, Step, Terminate
from tensight.control.machine import State
from tensight.errors import ControlError


def running(step: int = 4) -> Machine:
    return Machine(state="running", step=step)


def paused(step: int = 4) -> Machine:
    return Machine(state="paused", step=step)


def test_a_training_waits_until_its_first_step_begins() -> None:
    assert Machine().state == "waiting"
    assert Machine().step_began(0).state == "running"


def test_a_pause_takes_effect_when_the_step_ends() -> None:
    asked = running(4).command(Pause())
    assert asked.state == "pausing"
    assert asked.step_ended(5).state == "paused"


def test_a_pause_behind_a_later_step_lets_the_earlier_ones_end() -> None:
    asked = running(4).command(Pause(after=6))
    assert [asked.step_ended(step).state for step in (5, 6)] == ["pausing", "paused"]


def test_a_pause_asked_for_before_the_first_step_holds_after_it() -> None:
    assert Machine().command(Pause()).step_began(0).step_ended(0).state == "paused"


def test_steps_are_counted_and_then_it_pauses() -> None:
    machine = paused(4).command(Step(3))
    states = []
    for step in (5, 6, 7):
        machine = machine.step_ended(step)
        states.append(machine.state)
    assert states == ["running", "running", "paused"]
    assert "asked steps" in machine.reason


def test_a_hit_ends_a_run_of_steps_early() -> None:
    machine = paused(4).command(Step(100)).step_ended(5, pause="a hit")
    assert (machine.state, machine.reason) == ("paused", "a hit")
    assert machine.command(Continue()).step_ended(6).state == "running"  # the old goal is forgotten


def test_the_next_node_pauses_wherever_it_is() -> None:
    machine = paused(4).command(NextNode())
    assert machine.wants_nodes
    there = machine.at_node("conv.0", "forward")
    assert (there.state, there.node, there.phase, there.wants_nodes) == ("paused", "conv.0", "forward", False)


def test_run_to_a_node_passes_the_others_by() -> None:
    machine = paused(4).command(RunToNode("head"))
    assert machine.at_node("conv.0", "forward") is machine
    assert machine.at_node("head", "forward").state == "paused"


def test_run_to_a_node_that_does_not_come_pauses_at_the_end_of_the_step() -> None:
    machine = paused(4).command(RunToNode("gone")).step_ended(5)
    assert (machine.state, machine.reason) == ("paused", "the node did not come in this step")


def test_run_to_a_node_that_has_passed_waits_for_the_next_step() -> None:
    inside = paused(4).command(NextNode()).at_node("head", "forward")
    machine = inside.command(RunToNode("conv.0")).step_ended(5)
    assert machine.state == "running"
    assert machine.at_node("conv.0", "forward").state == "paused"


def test_one_step_from_inside_a_step_ends_that_step() -> None:
    inside = paused(4).command(NextNode()).at_node("head", "forward")
    assert inside.command(Step()).step_ended(5).state == "paused"


def test_terminate_stops_at_the_end_of_the_step_and_nothing_undoes_it() -> None:
    machine = running().command(Terminate())
    assert machine.state == "stopping"
    with pytest.raises(ControlError, match="about to stop"):
        machine.command(Continue())
    assert machine.step_ended(5, pause="a hit").state == "stopping"
    assert machine.over().state == "ended"


@pytest.mark.parametrize("command", [Step(), NextNode(), RunToNode("head")])
def test_stepping_needs_a_pause_first(command: Step | NextNode | RunToNode) -> None:
    with pytest.raises(ControlError, match="pause the training first"):
        running().command(command)


def test_a_training_that_is_over_takes_no_command() -> None:
    for command in (Continue(), Terminate(), Mute("x")):
        with pytest.raises(ControlError, match="over"):
            running().over().command(command)


def test_an_abandoned_training_goes_on() -> None:
    assert paused().abandoned().state == "running"
    assert running().command(Pause()).abandoned().step_ended(5).state == "running"


def test_an_abandoned_training_stops_where_that_was_asked_for() -> None:
    stopping = paused().abandoned("nobody was there for 1 s")
    assert (stopping.state, stopping.reason) == ("stopping", "nobody was there for 1 s")
    assert running().over().abandoned("nobody was there for 1 s").state == "ended"
    assert running().command(Terminate()).abandoned("nobody").reason == "terminated from the page"


def test_a_lost_training_is_lost_until_it_is_heard_again() -> None:
    lost = running().link_broken()
    assert lost.state == "lost"
    with pytest.raises(ControlError, match="gone"):
        lost.command(Continue())
    assert running().over().link_broken().state == "ended"


COMMANDS = st.one_of(
    st.just(Continue()),
    st.builds(Pause, st.integers(-1, 12)),
    st.builds(Step, st.integers(1, 5)),
    st.just(NextNode()),
    st.builds(RunToNode, st.sampled_from(["conv.0", "head", "gone"])),
    st.just(Mute("x")),
)


class AnyTraining(RuleBasedStateMachine):
    """Random commands and events never lead out of the states, nor to a pause that nobody asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.next_step = 0
        self.begun = False
        self.terminated = False

    @initialize()
    def start(self) -> None:
        self.machine = Machine()

    @rule(command=COMMANDS)
    def command(self, command: Continue | Pause | Step | NextNode | RunToNode | Mute) -> None:
        before = self.machine
        try:
            self.machine = before.command(command)
        except ControlError:
            assert self.machine is before
            return
        if isinstance(command, Continue):
            assert self.machine.state in ("running", "waiting")
        if isinstance(command, Mute):
            assert self.machine is before

    @precondition(lambda self: self.machine.live)
    @rule()
    def terminate(self) -> None:
        self.machine = self.machine.command(Terminate())
        self.terminated = True

    @precondition(lambda self: self.machine.state not in ("paused", "ended", "lost"))
    @rule(node=st.sampled_from(["conv.0", "head"]), phase=st.sampled_from(["forward", "backward"]))
    def run_a_node(self, node: str, phase: str) -> None:
        self.machine = self.machine.step_began(self.next_step)
        wanted = self.machine.wants_nodes
        after = self.machine.at_node(node, phase)
        assert after is self.machine or (wanted and after.state == "paused")
        self.machine = after

    @precondition(lambda self: self.machine.state not in ("paused", "ended", "lost"))
    @rule(pause=st.sampled_from(["", "a hit"]), stop=st.sampled_from(["", "", "a finding"]))
    def end_a_step(self, pause: str, stop: str) -> None:
        before = self.machine.step_began(self.next_step)
        after = before.step_ended(self.next_step, pause, stop)
        assert after.step == self.next_step
        assert after.node is None
        if before.state == "stopping" or stop:
            assert after.state == "stopping"
        elif pause or (before.state == "pausing" and before.until is not None and self.next_step >= before.until):
            assert after.state == "paused"
        elif before.until is None:
            assert after.state == before.state
        self.machine = after
        self.next_step += 1

    @rule(stop=st.sampled_from(["", "", "", "nobody was there"]))
    def lose_whoever_commands(self, stop: str) -> None:
        after = self.machine.abandoned(stop)
        assert after.state not in ("paused", "pausing")
        assert not stop or not after.live or after.state == "stopping"
        self.terminated = self.terminated or after.state == "stopping"
        assert after.until is None or after.state in ("stopping", "ended", "lost")
        self.machine = after

    @precondition(lambda self: self.terminated)
    @rule()
    def end(self) -> None:
        self.machine = self.machine.over()

    @invariant()
    def it_is_in_one_of_its_states(self) -> None:
        assert self.machine.state in get_args(State)
        if self.machine.wants_nodes:
            assert self.machine.state in ("waiting", "running")
        if self.machine.node is not None:
            assert self.machine.state == "paused"
        if self.terminated:
            assert self.machine.state in ("stopping", "ended")


TestAnyTraining = AnyTraining.TestCase
TestAnyTraining.settings = settings(deadline=None, max_examples=60, stateful_step_count=30, derandomize=True)
