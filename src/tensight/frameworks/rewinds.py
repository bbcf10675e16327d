"""What a framework may offer so that a bad step can be looked at again.

It is an offer, not a duty: without it a run says that a replay is not possible and why.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection
from threading import Thread
from typing import Protocol

import msgspec

from tensight.frameworks.adapter import Array
from tensight.records import Replay

Report = Callable[[str, BaseException], None]

# framework's import name → who can look again. One line adds a framework.
REWINDS = {"torch": "tensight.frameworks.torch.replay_rewinds:TorchRewinds"}


class Seen(msgspec.Struct, frozen=True):
    """What a look at a step has shown: the replay record and the guilty operator's real inputs by name."""

    replay: Replay
    values: dict[str, Array] = {}


class Again(msgspec.Struct, frozen=True):
    """A step that a `Shadow` ran again: what was seen, its loss, and what went wrong on the way."""

    seen: Seen | None
    loss: float | None = None
    trouble: str = ""
    exact: bool = True  # the same code ran; False where compiled code was run as Python


class Shadow(Protocol):
    """What an adapter offers that keeps what the last step was given, instead of `Rewinds`."""

    def hindrance(self, step: int) -> str:
        """Why this step cannot be run again, in one sentence; '' when it can."""
        ...

    def before_copy(self) -> None:
        """The process is about to be copied; `after_copy` follows, in the training as in the copy."""
        ...

    def after_copy(self, *, copy: bool) -> None: ...
    def run_again(self, step: int) -> Again:
        """In a copy of the process: the step, with every operator in view."""
        ...


class Look(Protocol):
    """Full observation of steps, in a process that may be slow."""

    def step_over(self, step: int) -> None:
        """A step went by; `step` is the next one."""
        ...

    def seen(self, step: int, *, final: bool) -> Seen | None:
        """Where bad values came from, when they reached the loss or weights; when `final`, also gradients.

        Status and strategy are for the caller to fill.
        """
        ...

    def stop(self) -> None: ...


class Rewinds(Protocol):
    """How the state of a training is kept, brought back and observed."""

    def hindrance(self) -> str:
        """Why a copy of this process could not run on by itself, in one sentence; '' when it could."""
        ...

    def idle_threads(self) -> Collection[Thread]:
        """Threads of the framework that wait for work which a copy never gives them: a copy can do without."""
        ...

    def never(self) -> str:
        """Why no copy could run at all, not even one that is handed kept batches; '' when it could."""
        ...

    def unrepeatable(self) -> str:
        """Why not even this process itself may run steps again: others would wait for it; '' when it may."""
        ...

    def enter_copy(self) -> str:
        """First thing in a copy of the process: one thread, nothing saved to files by the framework.

        Answers why the copy must not run (its weights are in memory that others share), or ''.
        """
        ...

    def size(self) -> int:
        """Bytes of weights, buffers and optimizer states: what one copy of the state takes."""
        ...

    def healthy(self) -> bool:
        """In a copy: whether all weights of the training are finite."""
        ...

    def look(self, report: Report) -> Look:
        """Begin to observe every operator."""
        ...

    def trials(self, seen: Seen) -> dict[str, Callable[[], str]]:
        """In a copy: what may be tried on the guilty operator, by name; each answers 'finite' or 'not finite'."""
        ...

    def scale_rates(self, factor: float) -> None:
        """In a copy: from now on every update is made with its learning rate times a factor."""
        ...

    def unwatchable(self) -> str:
        """Why operators must not be observed in the training itself, not even for one step; '' when they may."""
        ...

    def leave_out_update(self) -> None:
        """Take the gradients away, so that an update that follows changes nothing; spoilt weights get kept values."""
        ...

    def follow_losses(self) -> None:
        """From now on look into the graph of each bad loss, for want of anything better."""
        ...

    def walked(self) -> Seen | None:
        """What the graph of the last bad loss has shown; asked once."""
        ...

    def keep(self) -> int | None:
        """Keep weights, buffers, optimizer and random states in place of the kept ones; bytes held.

        None when the weights are not finite: what was kept before is worth more and stays.
        """
        ...

    def can_restore(self) -> bool:
        """Inside a request for a batch: whether state and batches are kept of the data that is asked for."""
        ...

    def replaced(self) -> list[tuple[int, int]]:
        """Memory, by address and bytes, that `restore` fills or that nobody reads after it: a copy can do without."""
        ...

    def restore(self) -> bool:
        """Put the kept state back; False when there is none."""
        ...

    def asking(self) -> int:
        """Inside a request for a batch: which data set it is asked of, as a number."""
        ...

    def repeat(self, times: int) -> None:
        """Inside a request for a batch, in a copy without loader workers: hand out this batch so many times."""
        ...

    def serve_batches(self, on_next: Callable[[bool], None]) -> None:
        """Call `on_next(has workers)` inside each request for a batch; after `restore`, kept ones are handed out."""
        ...

    def drop(self) -> None:
        """Forget what is kept and take off what was put on."""
        ...


def load(name: str) -> Rewinds:
    """How to rewind a framework that the user's program has imported."""
    module, _, attribute = REWINDS[name].partition(":")
    made: Rewinds = getattr(importlib.import_module(module), attribute)()
    return made


def load_imported() -> Rewinds | None:
    """The same of the framework that is imported; None when it offers nothing."""
    return next((load(name) for name in REWINDS if name in sys.modules), None)


__all__ = ["REWINDS", "Again", "Look", "Report", "Rewinds", "Seen", "Shadow", "load", "load_imported"]
