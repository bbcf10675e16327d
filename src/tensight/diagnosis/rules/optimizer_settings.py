"""Optimizers whose settings or parameters are not what was meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import rms
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, median, number, plural, some, where
from tensight.records import Finding, Part

FEW = 20  # updates
SWAPPED = 0.99
LARGE_EPS = 1e-4
UNDONE = 0.25  # of an update that is left when the next one begins
PAIRS = 8


def _number(part: Part, name: str) -> float | None:
    value = part.settings.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class BetasSwapped(Rule):
    """A mean that remembers longer than the variance it is divided by."""

    fault = "betas_swapped"
    category = "optimizer-update"
    finds = "Adam with its two betas in the wrong order: the mean is kept for a thousand steps, the variance for ten."
    evidence = ("betas of the optimizer",)
    explains = frozenset({"lr_too_high", "lr_too_low", "exploding_gradient"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for part in case.optimizers():
            betas = part.settings.get("betas")
            if not isinstance(betas, str) or case.order.optimizer(part.name).steps < FEW:
                continue
            first, _, second = betas.partition(",")
            try:
                mean, variance = float(first), float(second)
            except ValueError:
                continue
            if mean < SWAPPED or mean <= variance:
                continue
            yield self.finding(
                f"the betas of {part.type} are swapped",
                confidence=0.88,
                since_step=0,
                where=where(part.source, op=f"{part.type}.step"),
                why=f"{part.type} has betas=({number(mean)}, {number(variance)}): the first is that of the mean"
                f" gradient, which"
                f" now averages over {number(1 / (1 - mean))} steps, the second that of its variance, over"
                f" {number(1 / max(1 - variance, 1e-12))}. The usual order is (0.9, 0.999); swapped, updates follow"
                f" gradients"
                " of long ago and are scaled by the noise of the last few",
                facts=[("first beta", mean), ("second beta", variance)],
                fix=(f"give them the other way round: betas=({number(variance)}, {number(mean)}){at(part.source)}",),
            )


class MomentumTooLarge(Rule):
    """Momentum that forgets nothing."""

    fault = "momentum_too_large"
    category = "optimizer-update"
    finds = "Momentum of 1 or more: every gradient pushes on for ever, and weights swing further and further."
    evidence = ("momentum and dampening of the optimizer",)
    explains = frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu"}) | NONFINITE
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for part in case.optimizers():
            momentum, dampening = (part.settings.get(name) for name in ("momentum", "dampening"))
            if not isinstance(momentum, (int, float)) or momentum < 1 or dampening:
                continue
            if case.order.optimizer(part.name).steps < FEW:
                continue
            yield self.finding(
                f"the momentum of {part.type} is too high: it forgets nothing",
                confidence=0.93,
                since_step=0,
                where=where(part.source, op=f"{part.type}.step"),
                why=f"{part.type}{at(part.source)} has momentum={number(momentum)}: each update is the sum of all"
                " gradients so far, none of which ever decays, so the weights gather speed and swing past every"
                " minimum, as with a learning rate that grows with each step. 0.9 is usual",
                facts=[("momentum", momentum), ("first loss", case.loss.first), ("loss now", case.loss.last)],
                fix=(f"use momentum=0.9{at(part.source)}",),
            )


class EpsTooLarge(Rule):
    """An eps that is larger than the gradients it is to keep from being divided by zero."""

    fault = "eps_too_large"
    category = "optimizer-update"
    finds = "An eps of Adam or RMSprop far above the size of gradients: updates shrink to almost nothing."
    evidence = ("eps of the optimizer", "size of gradients", "size of updates", "course of the loss")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.1:
            return
        for part in case.optimizers():
            eps = _number(part, "eps")
            steps = case.order.optimizer(part.name).steps
            if eps is None or eps < LARGE_EPS or steps < FEW or ("Ada" not in part.type and "RMS" not in part.type):
                continue
            held = set(part.parameters)
            sizes = [
                rms(gradient)
                for kept in case.latest(4)
                for entry in case.ledger
                if f"{entry.network}:{entry.name}" in held and (gradient := kept.gradient(entry)) is not None
            ]
            size = median([value for value in sizes if value > 0])
            if not size or size > 0.02 * eps:
                continue
            yield self.finding(
                f"eps={number(eps)} of {part.type} is too large",
                confidence=0.86,
                since_step=0,
                where=where(part.source, op=f"{part.type}.step"),
                why=f"{part.type} divides by the size of gradients plus eps: gradients are about {number(size)}, eps is"
                f" {number(eps)}, {number(eps / size)} times as much, so every update is that many times smaller than"
                f" the"
                f" learning rate says, and the loss has not fallen ({number(trend.begin)} → {number(trend.end)})",
                facts=[
                    ("eps", eps),
                    ("size of gradients (rms)", size),
                    ("loss at the beginning", trend.begin),
                    ("now", trend.end),
                ],
                fix=(f"leave eps at its default (1e-8){at(part.source)}",),
            )


class ParametersInTwoOptimizers(Rule):
    """Two optimizers that step with the same gradients of the same parameters."""

    fault = "parameters_in_two_optimizers"
    category = "optimizer-update"
    finds = "Parameters that two optimizers hold and both update with the gradients of one backward pass."
    evidence = ("parameters of each optimizer", "order of backward passes and steps")
    explains = frozenset({"lr_too_high", "exploding_gradient"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for calls in case.order.optimizers.values():
            if calls.again < 5 or calls.again < 0.5 * calls.steps:
                continue
            own, other = (
                case.order.parameters_of[calls.name],
                case.order.parameters_of.get(calls.again_with, frozenset()),
            )
            both = sorted(name.partition(":")[2] for name in own & other)
            first, second = (case.parts.get(("optimizer", name)) for name in (calls.again_with, calls.name))
            if not both or first is None or second is None:
                continue
            wider = first if len(first.parameters) >= len(second.parameters) else second
            yield self.finding(
                f"{plural(len(both), 'parameter')} are in two optimizers",
                confidence=0.9,
                since_step=max(0, calls.first_again),
                where=where(wider.source, parameter=both[0], op=f"{wider.type}.step"),
                why=f"{some(both)} are held by both optimizers, {first.type}{at(first.source)} and {second.type}"
                f"{at(second.source)}, and both step after the same backward pass: each gradient is used twice, and two"
                f" states work against each other ({calls.again} times so far)",
                facts=[
                    ("parameters in both", len(both)),
                    ("updates with gradients that were used already", calls.again),
                ],
                fix=("give every parameter to one optimizer: split the parameters, or use groups of one optimizer",),
            )


class WeightsOverwritten(Rule):
    """Weights that go back to where they were after every update."""

    fault = "weights_overwritten"
    category = "optimizer-update"
    finds = "Weights that are changed back outside the optimizer after each update, so that training has no effect."
    evidence = ("weights after an update against those before the next one", "size of updates", "course of the loss")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "lr_too_high"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.1 or case.order.updates < FEW:
            return
        steps = case.deep()
        undone: dict[str, list[tuple[int, float]]] = {}
        entries = {}
        for now, then in itertools.pairwise(steps):
            if then.step != now.step + 1:
                continue
            for one, _ in now.of_kind("weight"):
                change, entry = one.stats.change, case.ledger.weight_of(one.tensor)
                later = then.last(one.tensor)
                if change is None or entry is None or later is None or later.change is None or not entry.held:
                    continue
                moved = (one.stats.abs_mean or 0.0) - change.before_abs_mean
                if not change.abs_max or abs(moved) < 1e-7 * max(change.before_abs_mean, 1e-6):
                    continue  # too small to tell
                left = (later.change.before_abs_mean - change.before_abs_mean) / moved
                undone.setdefault(entry.name, []).append((now.step, left))
                entries[entry.name] = entry
        judged = {name: seen for name, seen in undone.items() if len(seen) >= PAIRS}
        back = [name for name, seen in judged.items() if abs(median([left for _, left in seen])) < UNDONE]
        if not back or len(back) < 0.7 * len(judged):
            return
        name = back[0]
        part = case.optimizer_of(entries[name].network) or case.main_optimizer()
        calls = case.order.optimizers.get(part.name) if part is not None else None
        yield self.finding(
            "updates are undone outside the optimizer",
            confidence=0.85,
            since_step=judged[name][0][0],
            where=where(
                calls.step_source if calls is not None else None,
                module=entries[name].parameter.module,
                parameter=name,
                network=entries[name].network,
            ),
            why=f"{some(back)} change in every update and are set back (overwritten) before the next one:"
            f" {number(100 * median([left for _, left in judged[name]]))} % of the change is left. Something restores"
            f" weights"
            " outside the optimizer, as a moving average copied the wrong way, a checkpoint loaded in the loop or a"
            " stale"
            " copy does, and the loss has not fallen",
            facts=[
                ("parameters that go back", len(back)),
                ("share of an update that is left", median([left for _, left in judged[name]])),
                ("steps compared", len(judged[name])),
            ],
            fix=(
                "look for copy_, load_state_dict, mul_/add_ on parameters after optimizer.step(): copy into the"
                " average, not"
                " out of it",
            ),
        )
