"""The number format loses what matters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, plural, some, where
from tensight.records import Finding

LOST = 0.95  # share of elements that an update leaves as they were
MOST_LOST = 0.7  # enough where the network has been seen not to learn, of the elements that have a gradient
STUCK = 200  # updates after which a network that learns is seen to
SHORT = 50  # the same of a run that is over, where next to nothing of an update comes through
HARDLY = 0.8  # share of elements with a gradient that are then left as they were
SPACING = {"bfloat16": 2.0**-7, "float16": 2.0**-10}


class LostUpdates(Rule):
    """Updates smaller than the spacing of the weights' number format."""

    fault = "bf16_lost_updates"
    also = MappingProxyType({"fp16_lost_updates": "The same in float16, whose spacing is eight times finer."})
    category = "precision"
    finds = (
        "Weights in bfloat16 or float16 whose updates are smaller than half the spacing of their format and round away:"
        " nearly all of them, or most of them in a network that does not learn or ends where guessing is."
    )
    evidence = (
        "share of weights that an update leaves bit by bit as they were",
        "gradients",
        "dtype of the weights",
        "course of the loss against that of guessing",
    )
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not any(entry.parameter.dtype in SPACING for entry in case.ledger):
            return []
        steps = [kept for kept in case.deep() if kept.record.depth >= 1]
        lr = case.lr()
        if len(steps) < 5 or (lr is not None and not lr.most > 0):
            return []
        kept_values = total = seen = without = 0
        lost: dict[str, tuple[Entry, int]] = {}
        for kept in steps:
            for one, info in kept.of_kind("weight"):
                change, entry = one.stats.change, case.ledger.weight_of(one.tensor)
                if change is None or entry is None or info.dtype not in SPACING:
                    continue
                gradient = kept.gradient(entry)
                if gradient is None or gradient.bad:
                    continue
                # An element without a gradient has no update to lose.
                moving = gradient.count - gradient.zero
                if moving < 0.5 * gradient.count:
                    continue
                seen += 1
                total += change.count
                kept_values += change.equal
                without += gradient.zero
                if change.equal - gradient.zero >= MOST_LOST * moving:
                    lost[entry.name] = (entry, lost.get(entry.name, (entry, 0))[1] + 1)
        if not total or seen < 5 or not lost:
            return []
        all_lost = kept_values >= LOST * total
        came_to_nothing = (kept_values - without) / max(1, total - without)
        short = final and came_to_nothing >= HARDLY and self._at_guessing(case)
        if not all_lost and not short and (came_to_nothing < MOST_LOST or not self._stuck(case)):
            return []
        return [self._say(case, lost, kept_values / total, len(steps), all_lost=all_lost)]

    @staticmethod
    def _at_guessing(case: Case) -> bool:
        """Whether a run ends about where guessing is, and was not still raising its rate, which is small on purpose."""
        chance, lr, trend = case.chance_loss(), case.lr(), case.loss.trend()
        if chance is None or trend is None or case.last_step < SHORT:
            return False
        rising = lr is not None and any(now[1] > before[1] for before, now in pairwise(lr.points))
        return not rising and 0.9 * chance < trend.end < 1.5 * chance

    @staticmethod
    def _stuck(case: Case) -> bool:
        """Whether the loss has not come nearer to that of guessing, or stays there although there is more to learn.

        What gets through of the updates is enough for many networks, which learn a little more slowly.
        """
        chance, lr = case.chance_loss(), case.lr()
        rises = [] if lr is None else [now[0] for before, now in pairwise(lr.points) if now[1] > before[1]]
        since = rises[-1] if rises else 0  # a rate that warms up is small on purpose
        trend = case.loss.trend(since)
        if chance is None or trend is None or case.last_step - since < STUCK:
            return False
        if trend.end > 1.5 * chance:
            return trend.begin - trend.end < 0.25 * (trend.begin - chance)
        probe = case.scalars.get("probe/label_information")
        return probe is not None and probe.last > 0 and trend.end > 0.9 * chance and trend.flat()

    def _say(
        self, case: Case, lost: dict[str, tuple[Entry, int]], share: float, steps: int, *, all_lost: bool
    ) -> Finding:
        entry = max((one for one, _ in lost.values()), key=lambda one: one.parameter.size)
        part = case.optimizer_of(entry.network) or case.main_optimizer()
        kind = part.type if part is not None else "optimizer"
        calls = case.order.optimizer(part.name) if part is not None else None
        latest = case.latest(1)
        stats = latest[0].weight(entry) if latest else None
        dtype = entry.parameter.dtype
        size = stats.abs_mean if stats is not None and stats.abs_mean else 0.0
        lr = case.lr()
        rate = f" with learning rate {number(lr.last)}" if lr is not None else ""
        ends = f". The loss is {number(case.loss.last)}, where guessing gives {number(case.chance_loss())}"
        stays = "" if all_lost else ends
        return self.finding(
            f"updates of {dtype} weights are lost to rounding",
            fault="" if dtype == "bfloat16" else "fp16_lost_updates",
            confidence=0.94 if all_lost else 0.85,
            since_step=case.beginning[0].step if case.beginning else 0,
            where=where(
                (part.source if part is not None else None) or (calls.step_source if calls is not None else None),
                module=entry.parameter.module,
                parameter=entry.name,
                op=f"{kind}.step",
                network=entry.network,
            ),
            why=f"{number(share * 100)} % of the {dtype} weights are unchanged, bit by bit, after an update"
            f" although they have"
            f" gradients ({some(lost)}): near {number(size)} the spacing of {dtype} is"
            f" {number(SPACING[dtype] * size)}, and {'an update' if all_lost else 'most of an update'}{rate}"
            f" is below half of it, so it is lost to rounding{stays}",
            facts=[
                ("share of weights that did not change", share),
                ("spacing of the format relative to a value", SPACING[dtype]),
                (f"mean magnitude of {entry.name}", size),
                ("learning rate", lr.last if lr else None),
                ("observed steps", steps),
            ],
            fix=(
                "keep the weights in float32 and compute under torch.autocast(dtype=torch.bfloat16)"
                f"{at(part.source if part is not None else None)}",
                "or keep a float32 master copy in the optimizer, or use stochastic rounding",
            ),
            confirm=("compare a weight before and after optimizer.step(): torch.equal says True",),
        )


class GradientUnderflow(Rule):
    """float16 gradients so small that most of them become zero."""

    fault = "fp16_gradient_underflow"
    category = "precision"
    finds = "float16 gradients that underflow to zero because nothing scales the loss."
    evidence = ("share of zeros in float16 gradients", "size of the rest", "whether a scaler is at work")
    explains = frozenset(
        {"vanishing_gradient", "lr_too_low", "labels_shuffled_against_inputs", "bf16_lost_updates", "fp16_lost_updates"}
    )
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        scalers = [part for (kind, _), part in case.parts.items() if kind == "scaler"]
        if case.order.scaling or any(part.settings.get("enabled") is not False for part in scalers):
            return []
        if not any(info.dtype == "float16" for info in case.tensors.values()):
            return []
        zero = total = 0
        rest = 0.0
        worst: tuple[float, str | None, str, str] = (0.0, None, "", "")  # share of zeros, parameter, module, network
        steps = lost = 0
        for kept in case.deep():
            if kept.record.loss is not None and not math.isfinite(kept.record.loss):
                continue  # zeros there come of dividing by an infinite loss, or of a framework that swallows NaN
            found = False
            for one, info in kept.of_kind("gradient", "output_gradient"):
                stats = one.stats
                if info.dtype != "float16" or not stats.count or stats.bad:
                    continue
                found = True
                zero += stats.zero
                total += stats.count
                rest = max(rest, (stats.abs_mean or 0.0) * stats.count / max(1, stats.count - stats.zero))
                own = info.kind == "gradient"
                if stats.zero / stats.count > worst[0] and (own or worst[1] is None):
                    worst = (stats.zero / stats.count, info.name if own else None, info.node, info.network)
            steps += found
            lost += found and self._all_lost(kept)
        if steps < 5 or not total or ((zero < 0.5 * total or rest > 1e-5) and lost < 0.8 * steps):
            return []
        _, name, module, network = worst
        part = case.main_optimizer()
        scaled = case.order.optimizer(part.name).backward_source if part else None  # where the scale is missing
        return [
            self.finding(
                "float16 gradients underflow to zero",
                confidence=0.88,
                since_step=case.beginning[0].step if case.beginning else 0,
                where=where(
                    scaled or (part.source if part else None), parameter=name, module=module or None, network=network
                ),
                why=f"{number(100 * zero / total)} % of the float16 gradients are exactly zero and the rest is about"
                f" {number(rest)}, near the lower end of half precision (6e-8): small gradients underflow, and no"
                f" loss scaling is"
                " used",
                facts=[("share of zeros", zero / total), ("mean magnitude of the rest, at most", rest)],
                fix=("scale the loss with torch.amp.GradScaler, or use bfloat16, which keeps the range of float32",),
            )
        ]

    @staticmethod
    def _all_lost(kept: Kept) -> bool:
        """A small gradient comes from the loss, and of no parameter is anything left of it."""
        own = [one.stats for one, info in kept.of_kind("gradient") if info.dtype == "float16"]
        given = [one.stats.abs_mean or 0.0 for one, info in kept.of_kind("output_gradient") if info.dtype == "float16"]
        fired = all(one.stats.zero < one.stats.count for one, info in kept.forward() if "relu" in info.type.lower())
        return bool(own) and fired and 0 < max(given, default=0.0) < 1e-3 and all(s.zero == s.count for s in own)


class ScaleKeepsFalling(Rule):
    """A loss scale that never recovers."""

    fault = "loss_scale_keeps_falling"
    category = "precision"
    finds = "A loss scale that falls step after step because gradients overflow at every scale."
    evidence = ("scale over the steps", "updates the scaler left out")
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        series = case.scalars.get("scale") or next(
            (one for name, one in case.scalars.items() if name.startswith("scale")), None
        )
        if series is None or series.count < 8:
            return []
        points = series.points
        falls = 0
        since = points[-1][0]
        for (_, before), (step, now) in zip(reversed(points[:-1]), reversed(points[1:])):
            if now > before:
                break
            if now < before:
                falls += 1
                since = step
        tiny = series.last < 1.0
        # A scaler that starts at 65536 falls a few times before it fits; 12 halvings in a row bring it to 16.
        if not (falls >= 12 or (tiny and falls >= 8)) or series.last > 64:
            return []
        skipped = sum(calls.skipped for calls in case.order.optimizers.values())
        parts = [part for (kind, _), part in case.parts.items() if kind == "scaler"]
        return [
            self.finding(
                "the loss scale keeps falling",
                confidence=0.88,
                since_step=since,
                where=where(parts[0].source if parts else None, op="GradScaler.update"),
                why=f"the loss scale fell {plural(falls, 'time')} in a row to {number(series.last)} and never rose:"
                f" {plural(skipped, 'update')} were left out because gradients are inf or NaN at every scale. A"
                f" value overflows"
                " whatever the scale, so the cause lies in forward or backward, not in the scale",
                facts=[("scale at the start", series.first), ("scale now", series.last), ("updates left out", skipped)],
                fix=("look for the first inf or NaN in forward; keep that part in float32, or use bfloat16",),
            )
        ]


class ClipBeforeUnscale(Rule):
    """Gradients that are clipped while still multiplied by the loss scale."""

    fault = "clip_before_unscale"
    category = "precision"
    finds = (
        "Gradient clipping on scaled gradients: scaler.unscale_ is missing before it, so nearly everything is cut away."
    )
    evidence = ("order of unscale, clip and step", "loss scale")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient", "clip_too_small"})
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for calls in case.order.optimizers.values():
            if calls.clipped_scaled < 3:
                continue
            series = case.scalars.get("scale")
            scale = number(series.last) if series is not None else "the loss scale"
            return [
                self.finding(
                    "gradients are clipped before they are unscaled",
                    confidence=0.94,
                    since_step=max(0, calls.first_clipped_scaled),
                    where=where(case.order.clip_source, op="clip_grad_norm_"),
                    why=f"clip_grad_norm_{at(case.order.clip_source)} runs on gradients that are still"
                    f" multiplied by the loss scale"
                    f" ({scale}): scaler.unscale_(optimizer) did not come before it in"
                    f" {plural(calls.clipped_scaled, 'update')}, so"
                    " the threshold is that many times too strict and gradients are clipped to almost nothing",
                    facts=[
                        ("updates clipped while scaled", calls.clipped_scaled),
                        ("scale", series.last if series else None),
                    ],
                    fix=("call scaler.unscale_(optimizer) right before clip_grad_norm_",),
                )
            ]
        return []
