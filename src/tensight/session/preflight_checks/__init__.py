"""The checks of `tensight preflight`. Each is a function over a recorded run; one line in the table adds one."""

from __future__ import annotations

from collections.abc import Callable

from tensight.runs import Run
from tensight.session.one_batch import Trial
from tensight.session.preflight_checks.data import batches_differ, inputs_are_finite, inputs_have_scale, labels
from tensight.session.preflight_checks.learning import one_batch, updates_have_size
from tensight.session.preflight_checks.look import Answer, Look, Mark
from tensight.session.preflight_checks.losses import loss_at_the_start, losses_are_finite
from tensight.session.preflight_checks.parameters import every_gradient, every_move, every_owner
from tensight.session.preflight_checks.running import memory, mode, speed

Check = Callable[[Look], Answer]

# what a user reads → the check, in the order of the list
CHECKS: dict[str, Check] = {
    "inputs are finite": inputs_are_finite,
    "inputs have a sane scale": inputs_have_scale,
    "labels vary": labels,
    "batches differ": batches_differ,
    "loss is finite": losses_are_finite,
    "loss at the start": loss_at_the_start,
    "every parameter gets a gradient": every_gradient,
    "every parameter is in an optimizer": every_owner,
    "every parameter moves": every_move,
    "size of updates": updates_have_size,
    "one batch can be learnt": one_batch,
    "mode": mode,
    "memory": memory,
    "speed": speed,
}


def check(run: Run, trial: Trial | None = None) -> dict[str, Answer]:
    """Every check's answer on a run. A check that fails says so; the others go on."""
    look = Look(run, trial)
    answers = {}
    for name, ask in CHECKS.items():
        try:
            answers[name] = ask(look)
        except Exception as error:
            answers[name] = Answer("unknown", f"the check itself failed: {type(error).__name__}: {error}")
    return answers


__all__ = ["CHECKS", "Answer", "Look", "Mark", "check"]
