"""Commands, as data."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tensight.records import Watchpoint

MOST_STEPS = 2**31 - 1


class Continue(msgspec.Struct, frozen=True, tag="continue", tag_field="do"):
    """Run until something pauses it again."""


class Pause(msgspec.Struct, frozen=True, tag="pause", tag_field="do"):
    """Pause when the step that runs now has ended, or not before step `after` has ended.

    `after` lets several ranks stop behind the same step, so that none waits for another inside a collective.
    """

    after: int = -1


class Step(msgspec.Struct, frozen=True, tag="step", tag_field="do"):
    """Run `count` more steps, then pause; a hit or finding pauses earlier."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 1


class NextNode(msgspec.Struct, frozen=True, tag="next_node", tag_field="do"):
    """Run until the next module has returned, or its gradient has come."""


class RunToNode(msgspec.Struct, frozen=True, tag="run_to_node", tag_field="do"):
    """Run until this module has returned, but not beyond the end of the next full step."""

    node: str


class Terminate(msgspec.Struct, frozen=True, tag="terminate", tag_field="do"):
    """End the script cleanly when the step that runs now has ended."""


class AddWatchpoint(msgspec.Struct, frozen=True, tag="add_watchpoint", tag_field="do"):
    """Watch for one thing more, from the next step on."""

    watchpoint: Watchpoint


class ChangeWatchpoint(msgspec.Struct, frozen=True, tag="change_watchpoint", tag_field="do"):
    """Replace the watchpoint of the same id."""

    watchpoint: Watchpoint


class RemoveWatchpoint(msgspec.Struct, frozen=True, tag="remove_watchpoint", tag_field="do"):
    """Forget a watchpoint; its hits stay recorded."""

    id: int


class Mute(msgspec.Struct, frozen=True, tag="mute", tag_field="do"):
    """Let the finding of this key interrupt nobody any more, or let it again."""

    key: str
    muted: bool = True


Command = (
    Continue
    | Pause
    | Step
    | NextNode
    | RunToNode
    | Terminate
    | AddWatchpoint
    | ChangeWatchpoint
    | RemoveWatchpoint
    | Mute
)

Driving = (Continue, Pause, Step, NextNode, RunToNode, Terminate)
"""The commands that drive the training; the others change what it looks at and are welcome in every state."""
