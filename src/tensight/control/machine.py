"""The state of a training and what changes it. No input, no output, no clock, no thread.

waiting ──step began──▶ running ──pause──▶ pausing ──step ended──▶ paused
                          ▲  │                                       │
                          │  └──finding, hit, goal reached──────────▶│
                          └──continue, step, next node, run to node──┘
any of these ──terminate──▶ stopping ──▶ ended
paused ──nobody there any more──▶ running, or stopping where that was asked for
any but ended ──link broken (seen by the server)──▶ lost ──link again──▶ what the training says
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.control.commands import Command, Continue, Driving, Pause, RunToNode, Step, Terminate
from tensight.errors import ControlError

State = Literal["waiting", "running", "pausing", "paused", "stopping", "ended", "lost"]


class Machine(msgspec.Struct, frozen=True):
    """One training's state. Every method answers the machine that follows; none changes this one.

    `step` is the last step that ended (-1 before the first). `node` and `phase` are set while paused inside a step.
    `reason` says in words why it is paused.

    >>> machine = Machine().step_began(0).command(Pause())
    >>> machine.state
    'pausing'
    >>> machine.step_ended(0).state
    'paused'
    """

    state: State = "waiting"
    step: int = -1
    until: int | None = None  # pause when this step has ended
    node_goal: str | None = None  # pause at this node; '*' means the next one, whichever
    node: str | None = None
    phase: str = ""
    reason: str = ""

    @property
    def wants_nodes(self) -> bool:
        """Whether the training must say which node it is at; it costs, so only while somebody waits for one."""
        return self.node_goal is not None

    @property
    def live(self) -> bool:
        return self.state not in ("ended", "lost")

    def command(self, command: Command) -> Machine:
        """The machine after a command, or a ControlError that says why it cannot be followed now."""
        if not isinstance(command, Driving):
            self._refuse_unless(self.live, "the training is over")
            return self
        self._refuse_unless(self.live, "the training is over" if self.state == "ended" else "the training is gone")
        if isinstance(command, Terminate):
            return self._with("stopping", reason="terminated from the page")
        self._refuse_unless(self.state != "stopping", "the training is about to stop")
        if isinstance(command, Pause):
            if self.state == "paused":
                return self
            return self._with("pausing", until=max(command.after, self.step), reason="paused by hand")
        if isinstance(command, Continue):
            return self._run()
        if isinstance(command, Step):
            self._refuse_unless(self.state in ("paused", "waiting"), "pause the training first")
            return self._run(until=self.step + command.count)
        self._refuse_unless(self.state in ("paused", "waiting"), "pause the training first")
        goal = command.node if isinstance(command, RunToNode) else "*"
        # Inside a step the node may have passed already: then the next full step is the limit.
        return self._run(until=self.step + 1 + (self.node is not None), node_goal=goal)

    def step_began(self, step: int) -> Machine:
        return self._with("running", until=self.until, node_goal=self.node_goal) if self.state == "waiting" else self

    def at_node(self, node: str, phase: str) -> Machine:
        """A module has returned, or its gradient has come."""
        if self.state not in ("running", "waiting") or self.node_goal is None:
            return self
        if self.node_goal not in ("*", node):
            return self
        return self._with("paused", node=node, phase=phase, reason="reached the node")

    def step_ended(self, step: int, pause: str = "", stop: str = "") -> Machine:
        """A step has ended. `pause` or `stop` say why it should do that here, '' means it need not."""
        if self.state in ("ended", "lost"):
            return self
        here = msgspec.structs.replace(self, step=step, node=None, phase="")
        if self.state == "stopping":
            return here
        if stop:
            return here._with("stopping", reason=stop)
        if pause:
            return here._with("paused", reason=pause)
        if self.until is not None and step >= self.until:
            if self.state == "pausing":
                reason = self.reason
            else:
                reason = "the asked steps have run" if self.node_goal is None else "the node did not come in this step"
            return here._with("paused", reason=reason)
        if self.state == "waiting":
            return here._with("running", until=self.until, node_goal=self.node_goal)
        return here

    def abandoned(self, stop: str = "") -> Machine:
        """Nobody is there any more to command: what is paused goes on, what should pause does not; with `stop`, which
        says why, the script ends instead."""
        if self.state not in ("waiting", "running", "pausing", "paused"):
            return self
        return self._with("stopping", reason=stop) if stop else self._run()

    def over(self) -> Machine:
        return self._with("ended", reason=self.reason if self.state == "stopping" else "")

    def link_broken(self) -> Machine:
        """The server does not hear the training any more."""
        return self if self.state == "ended" else self._with("lost", reason="the training has not been heard of")

    def _run(self, until: int | None = None, node_goal: str | None = None) -> Machine:
        state: State = "waiting" if self.state == "waiting" else "running"
        return self._with(state, until=until, node_goal=node_goal)

    def _with(
        self,
        state: State,
        *,
        until: int | None = None,
        node_goal: str | None = None,
        node: str | None = None,
        phase: str = "",
        reason: str = "",
    ) -> Machine:
        return Machine(state, self.step, until, node_goal, node, phase, reason)

    @staticmethod
    def _refuse_unless(allowed: bool, why: str) -> None:
        if not allowed:
            raise ControlError(f"This cannot be done now: {why}.")
