"""Commands to a training: what they are, what they do to its state, and how they travel.

`machine` is pure. `link` is the training's end of the wire, `messages` what goes over it. The training never
depends on the other end: without one it runs on.
"""

from typing import TYPE_CHECKING

from tensight.control.commands import (
    AddWatchpoint,
    ChangeWatchpoint,
    Command,
    Continue,
    Mute,
    NextNode,
    Pause,
    RemoveWatchpoint,
    RunToNode,
    Step,
    Terminate,
)

if TYPE_CHECKING:
    from tensight.control.link import Link
    from tensight.control.machine import Machine, State

__all__ = [
    "AddWatchpoint",
    "ChangeWatchpoint",
    "Command",
    "Continue",
    "Link",
    "Machine",
    "Mute",
    "NextNode",
    "Pause",
    "RemoveWatchpoint",
    "RunToNode",
    "State",
    "Step",
    "Terminate",
]


def __getattr__(name: str) -> object:
    if name == "Link":  # a training without a page needs no wire
        from tensight.control.link import Link

        return Link
    if name in ("Machine", "State"):
        from tensight.control import machine

        found: object = getattr(machine, name)
        return found
    raise AttributeError(f"module 'tensight.control' has no attribute {name!r}")
