"""Every trainable parameter: does a gradient reach it, does an optimizer hold it, does it move."""

from __future__ import annotations

from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.words import plural, some
from tensight.session.preflight_checks.look import Answer, Look

NOTHING = Answer("unknown", "no model with parameters of an optimizer was seen")


def _names(entries: list[Entry]) -> str:
    return some([entry.name for entry in entries])


def every_gradient(look: Look) -> Answer:
    """A gradient that is not zero was seen of each; those of modules that were not called are only mentioned."""
    if not look.trained:
        return NOTHING
    without = [entry for entry in look.trained if not entry.alive]
    if not without:
        return Answer("ok", f"{plural(len(look.trained), 'parameter')}, all reached")
    said = f"{len(without)} of {plural(len(look.trained), 'parameter')} got no gradient: {_names(without)}"
    if len(without) == len(look.trained):
        return Answer("bad", said, "look for detach(), no_grad or .data between the parameters and the loss")
    if any(look.ran(entry) and entry.held for entry in without):
        return Answer("look", said, "they ran, but the loss does not depend on them: a detach(), or an unused output")
    return Answer("look", said, "their modules were not called: fine for heads that come later")


def every_owner(look: Look) -> Answer:
    """An optimizer holds each parameter that gets gradients."""
    if not look.trained:
        return NOTHING
    alone = [entry for entry in look.trained if not entry.held]
    strangers = [part for part in look.run.parts if part.kind == "optimizer" and part.unknown_parameters]
    if alone and any(entry.alive for entry in alone):
        return Answer(
            "bad",
            f"{len(alone)} of {plural(len(look.trained), 'parameter')} are in no optimizer: {_names(alone)}",
            "make the optimizer after the model is complete, or set requires_grad=False where it is meant so",
        )
    if strangers:
        return Answer(
            "look",
            f"{strangers[0].name} holds {plural(strangers[0].unknown_parameters, 'parameter')} of no network that ran",
            "make the optimizer after the model was moved or changed",
        )
    if alone:
        return Answer("look", f"in no optimizer, and without gradients: {_names(alone)}")
    return Answer("ok", f"all {plural(len(look.trained), 'parameter')} are held")


def every_move(look: Look) -> Answer:
    """Each parameter that gets gradients and is held has changed."""
    if not look.trained:
        return NOTHING
    if not look.updated:
        return Answer("bad", f"no optimizer has stepped in {plural(len(look.steps), 'step')}", "call optimizer.step()")
    due = [entry for entry in look.trained if entry.alive and entry.held]
    still = [entry for entry in due if entry.weight >= 0 and entry.first_move < 0]
    if still:
        rates = look.case.lr()
        zero = rates is not None and rates.most == 0
        return Answer(
            "look" if zero and not _rises(look) else "bad",
            f"{len(still)} of {plural(len(due), 'parameter')} did not change: {_names(still)}",
            "the learning rate is zero" if zero else "look at the learning rate and at the number format",
        )
    frozen = [entry for entry in look.case.ledger if not entry.parameter.trainable]
    kept = f"; {plural(len(frozen), 'frozen one')} left alone" if frozen else ""
    return Answer("ok", f"{plural(len(due), 'parameter')} moved{kept}")


def _rises(look: Look) -> bool:
    """Whether a schedule is there that may still raise the rate."""
    return not any(part.kind == "scheduler" for part in look.run.parts)
