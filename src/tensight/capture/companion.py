"""What else may take part in a step: rewind, control, progress, a user's own observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensight.records import Coverage, Finding, Observation, RunEnd, StepRecord, TensorInfo


class Companion:
    """Someone who goes along with the training, called in its thread; every method does nothing by default.

    Calls are guarded: an error in a companion is reported and never reaches the training. `step_ended` and `node` may
    block (that is how a pause works); the time they take is not counted as cost of watching.
    """

    def started(self) -> None:
        """Capture has begun: the run directory exists."""

    def step_began(self, step: int) -> None:
        """The first thing of a new step happened (a batch was asked for, a forward began)."""

    def node(self, node: str, phase: str) -> None:
        """A module returned (phase 'forward') or its output's gradient came ('backward').

        Called only while `wants_nodes` is True, since it costs.
        """

    wants_nodes: bool = False
    wants_gradients: bool = False  # of every step, whatever the budget says
    wants_steps: bool = False  # to hear the end of every step: none may be slept through

    def before_update(
        self, optimizer: str, observations: Sequence[Observation], tensors: Mapping[int, TensorInfo]
    ) -> None:
        """An optimizer is about to step. `observations` are those of the step so far, its gradients among them."""

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        """A step has ended, was judged and written. `findings` are those that are new with it."""

    def covered(self, coverage: Coverage) -> None:
        """What is watched is known, or has changed."""

    def ending(self) -> None:
        """The script is over; last conclusions follow. What is still under way may be waited for, a little."""

    def ended(self, end: RunEnd) -> None:
        """The training is over; nothing follows."""
