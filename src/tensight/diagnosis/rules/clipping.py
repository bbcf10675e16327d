"""Gradients that are clipped or cleared at the wrong moment, or clipped to nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, median, number, plural, where
from tensight.records import Finding

NOTHING = 1e-3  # of the gradient that is left
SLOW = 5e-4  # change over weight
FEW = 5


class ClipTooSmall(Rule):
    """A limit on the gradient norm that leaves nothing of the gradient."""

    fault = "clip_too_small"
    category = "optimizer-update"
    finds = "Gradient clipping with a limit far below every gradient norm: plain SGD then hardly moves."
    evidence = ("gradient norm before clipping, and the limit", "size of updates", "course of the loss")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.3:
            return
        for part in case.optimizers():
            calls = case.order.optimizer(part.name)
            finite = [(norm, limit) for norm, limit in calls.clips if norm - norm == 0 and norm > 0]
            if len(finite) < 20 or part.type.startswith(("Ada", "RMS", "NAdam", "RAdam")):
                continue  # those divide by the size of the gradient again
            kept = median([limit / norm for norm, limit in finite])
            if kept > 10 * NOTHING or ((trend.fall > 0.1 or kept > NOTHING) and not self._slow(case)):
                continue
            norm, limit = median([one[0] for one in finite]), finite[-1][1]
            yield self.finding(
                f"clipping to {number(limit)} leaves nothing of the gradients",
                confidence=0.9,
                since_step=0,
                where=where(case.order.clip_source, op="clip_grad_norm_"),
                why=f"the gradient norm is about {number(norm)} and clip_grad_norm_ cuts it to"
                f" max_norm={number(limit)},"
                f" {number(kept)} of it, in nearly every update: the threshold is too small, the weights hardly move"
                f" and the loss stays ({number(trend.begin)} → {number(trend.end)})",
                facts=[("gradient norm before clipping", norm), ("after", limit), ("clipped updates", len(finite))],
                fix=(f"clip rare large gradients only: max_norm about {number(2 * norm)}{at(case.order.clip_source)}",),
            )

    @staticmethod
    def _slow(case: Case) -> bool:
        """Whether weights move by less than half of the usual thousandth in an update."""
        ratios = [ratio for _, _, ratio in case.updates_seen()]
        return len(ratios) >= 20 and median(ratios) < SLOW


class ClipAfterStep(Rule):
    """Clipping that comes when the gradients have been used."""

    fault = "clip_after_step"
    category = "optimizer-update"
    finds = "Gradient clipping after optimizer.step(): it changes gradients that were used already."
    evidence = ("order of backward, clip and step",)
    explains = frozenset({"exploding_gradient", "lr_too_high"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for calls in case.order.optimizers.values():
            if calls.late_clips < FEW or calls.late_clips < 0.8 * calls.steps:
                continue
            yield self.finding(
                "gradients are clipped after the step that used them",
                confidence=0.93,
                since_step=max(0, calls.first_late_clip),
                where=where(case.order.clip_source, op="clip_grad_norm_"),
                why=f"clip_grad_norm_{at(case.order.clip_source)} runs after optimizer.step(){at(calls.step_source)}"
                f" and before"
                f" the next backward pass, {plural(calls.late_clips, 'time')} so far: the update has used the"
                f" gradients as"
                " they were, so nothing is clipped",
                facts=[("clipped after the step", calls.late_clips), ("updates", calls.steps)],
                fix=("clip between loss.backward() and optimizer.step()",),
            )


class ClearedBeforeStep(Rule):
    """zero_grad between backward and step."""

    fault = "gradients_cleared_before_step"
    category = "optimizer-update"
    finds = "Gradients that zero_grad clears after the backward pass and before the optimizer uses them."
    evidence = ("order of backward, zero_grad and step", "whether weights move")
    explains = frozenset(
        {"lr_too_low", "labels_shuffled_against_inputs", "too_few_optimizer_steps", "detach_breaks_graph", "zero_init"}
    )
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for calls in case.order.optimizers.values():
            if calls.emptied < FEW or calls.emptied < 0.8 * calls.steps:
                continue
            yield self.finding(
                "gradients are cleared before the optimizer uses them",
                confidence=0.95,
                since_step=max(0, calls.first_emptied),
                where=where(calls.zero_source or calls.step_source, op="zero_grad"),
                why=f"zero_grad(){at(calls.zero_source)} comes after backward(){at(calls.backward_source)} and before"
                f" step(){at(calls.step_source)}: {calls.emptied} of {plural(calls.steps, 'update')} found no"
                f" gradient, so"
                " steps update nothing and no weight learns",
                facts=[("updates without gradients", calls.emptied), ("updates", calls.steps)],
                fix=("clear first: optimizer.zero_grad(), then loss.backward(), then optimizer.step()",),
                confirm=("compare a weight before and after a step: it is the same",),
            )
