"""Updates by gradients that are still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from tensight.diagnosis.case import Case
from tensight.diagnosis.order import OptimizerCalls
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding, Part

UPDATES = 3
SHARE = 0.5  # of all updates
LARGER = 2.0  # times what can be


def past_the_scaler(rule: Rule, case: Case) -> Iterator[Finding]:
    """optimizer.step() in place of scaler.step(optimizer), in a training that runs away by it."""
    if not (case.trouble.first is not None or case.diverged() or "lr_too_high" in case.findings_of):
        return  # an optimizer that divides by the size of its gradients does not mind
    for part in case.optimizers():
        calls = case.order.optimizer(part.name)
        if calls.used_scaled < UPDATES or calls.used_scaled < SHARE * calls.steps or calls.used_scale <= 1:
            continue
        if _too_large(case):
            yield _say(rule, case, part, calls)


def _too_large(case: Case) -> bool:
    """Whether a bias was used with a larger gradient than all gradients of its module's output together make.

    Those are known as they are without the scale: whoever divides gradients by hand stays below their sum.
    """
    for kept in case.beginning:
        given: dict[tuple[str, str], float] = {}
        for one, info in kept.of_kind("output_gradient"):
            place = (info.network, info.node)
            given[place] = given.get(place, 0.0) + one.stats.count * (one.stats.abs_mean or 0.0)
        for entry in case.ledger:
            gradient = kept.gradient(entry) if len(entry.parameter.shape) == 1 else None
            most = given.get((entry.network, entry.parameter.module), 0.0)
            if gradient is None or gradient.bad or not most or not entry.name.endswith("bias"):
                continue
            if gradient.count * (gradient.abs_mean or 0.0) > LARGER * most:
                return True
    return False


def _say(rule: Rule, case: Case, part: Part, calls: OptimizerCalls) -> Finding:
    scale = number(calls.used_scale)
    return rule.finding(
        "the optimizer steps by gradients that are still scaled",
        confidence=0.93,
        since_step=max(0, calls.first_used_scaled),
        where=where(calls.step_source, op=f"{part.type}.step"),
        why=f"the loss is multiplied by the loss scale ({scale}) before backward{at(calls.backward_source)}, and"
        f" step(){at(calls.step_source)} is called on the optimizer itself, without scaler.step or scaler.unscale_:"
        f" {plural(calls.used_scaled, 'update')} used gradients that are {scale} times too large, and training"
        f" diverges ({number(case.loss.first)} → {number(case.loss.last)})",
        facts=[("loss scale", calls.used_scale), ("updates by scaled gradients", calls.used_scaled)],
        fix=(
            f"step through the scaler{at(calls.step_source)}: scaler.step(optimizer), then scaler.update()",
            "or unscale first: scaler.unscale_(optimizer)",
        ),
        confirm=("print the gradient norm before the step: divided by the scale it is an ordinary one",),
    )
