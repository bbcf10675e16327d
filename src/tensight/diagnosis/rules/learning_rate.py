"""Steps that are too large, too small, or none at all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import rms
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE, replay_of, tried
from tensight.diagnosis.series import Series, Trend
from tensight.diagnosis.words import at, median, number, plural, where
from tensight.records import Finding, Part, Source, Stats

WILD = 0.5  # an update of half the weight's own size
UNSETTLED = 0.2  # the same, in half of all steps
LOST = 1e-5  # updates that never exceeded this share of the weight
LARGE_PART = 0.25  # of a run
FEW = 30  # updates before one may say that nothing moves
LONG = 100  # and before one may say so of a rate that is still rising
NOWHERE = 0.02  # share of a weight that all updates of a run together could have changed


def _optimizer(case: Case) -> tuple[Part | None, Source | None, str]:
    part = case.main_optimizer()
    source = part.source if part is not None else None
    return part, source, part.type if part is not None else "optimizer"


def constant_or_falling(series: Series) -> bool:
    """Whether the rate is not being raised any more: a warm-up is over or never was."""
    points = series.points
    if len(points) < 3:
        return True
    return points[-1][1] <= points[len(points) // 2][1] * 1.001


class LrTooHigh(Rule):
    """Updates as large as the weights themselves, and a loss that explodes after them."""

    fault = "lr_too_high"
    category = "lr-schedule"
    finds = "A learning rate so high that single updates are as large as the weights and the loss runs away."
    evidence = ("size of updates against weights", "the loss before and after them", "first gradients and inputs")
    explains = (
        frozenset({"exploding_gradient", "exploding_activation", "weight_decay_too_large", "dead_relu"}) | NONFINITE
    )
    symptom = True
    every = 5
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        begin = case.loss.first
        part = case.main_optimizer()
        if not math.isfinite(begin) or case.steps < 2 or (part is not None and case.order.updates < 2):
            return []
        floor = max(abs(begin), case.chance_loss() or 0.0, 1e-3)
        if case.loss.most > 10 * floor or not math.isfinite(case.loss.last):
            found = self._ran_away(case, begin, floor)
        else:
            found = self._never_settles(case, begin)
        return [found] if found is not None else []

    def _ran_away(self, case: Case, begin: float, floor: float) -> Finding | None:
        ran_away = next(
            ((step, value) for step, value in case.loss.points if not math.isfinite(value) or value > 10 * floor), None
        )
        if ran_away is None:
            return None
        wild = [
            (kept.step, entry, ratio)
            for kept, entry, ratio in case.updates_seen()
            if ratio > WILD and kept.step <= ran_away[0]
        ]
        if not wild or max(ratio for _, _, ratio in wild) < 1 or not self._stays_bad(case, begin, floor):
            return None
        if not math.isfinite(ran_away[1]) and max(step for step, _, _ in wild) < ran_away[0] - 3:
            return None  # it broke without having grown, long after the large updates: something else made the NaN
        return self._say(case, wild, ran_away, 0.9, "training diverges")

    def _never_settles(self, case: Case, begin: float) -> Finding | None:
        """A bounded loss cannot run away: updates stay as large as the weights, and the loss no lower than before."""
        trend = case.loss.trend()
        if trend is None or case.steps < FEW:
            return None
        if trend.end < max(begin, 0.9 * trend.begin):
            return self._thrown_away(case, trend)
        largest: dict[int, tuple[int, Entry, float]] = {}
        for kept, entry, ratio in case.updates_seen():
            if kept.step not in largest or ratio > largest[kept.step][2]:
                largest[kept.step] = (kept.step, entry, ratio)
        if len(largest) < 10 or median([ratio for _, _, ratio in largest.values()]) < UNSETTLED:
            return None
        return self._say(case, list(largest.values()), (case.last_step, trend.end), 0.82, "training never settles")

    def _thrown_away(self, case: Case, trend: Trend) -> Finding | None:
        """A rate that rose so far that weights were replaced by their updates, and guessing is all that is left."""
        guessing = case.losses.guessing()
        if guessing is None or trend.end < 0.95 * guessing:
            return None
        wild = [(kept.step, e, ratio) for kept, e, ratio in case.updates_seen() if ratio > WILD and e.matrix]
        if len(wild) < 3 or max(ratio for _, _, ratio in wild) < 1:
            return None
        matrices = [entry for name in case.trained() for entry in case.layers(name) if entry.matrix]
        if 2 * len({id(entry) for _, entry, _ in wild}) < len(matrices):
            return None  # a head that began at zero, say
        first, last = case.beginning[:1], case.latest(1)
        grown = [
            now.abs_mean > 5 * _size_before(then)
            for _, entry, _ in wild
            for then, now in [(first[0].weight(entry), last[0].weight(entry))]
            if then is not None and now is not None and then.abs_mean and now.abs_mean
        ]
        if not grown or not all(grown):
            return None
        return self._say(case, wild, (case.last_step, trend.end), 0.82, "training never settles")

    def _say(
        self, case: Case, wild: list[tuple[int, Entry, float]], after: tuple[int, float], confidence: float, what: str
    ) -> Finding:
        part, source, kind = _optimizer(case)
        lr = case.lr(part.name if part is not None else None)
        begin = case.loss.first
        step, entry, ratio = wild[0]
        largest = max(wild, key=lambda one: one[2])
        rate = lr.most if lr is not None else part.settings.get("lr") if part is not None else None
        value = float(rate) if isinstance(rate, (int, float)) else None
        named = f"the learning rate {number(value)}" if value is not None else "the learning rate"
        return self.finding(
            f"{named} is too high: {what}",
            confidence=confidence,
            since_step=step,
            where=where(source, op=f"{kind}.step", network=entry.network),
            why=f"the update of step {step} changed {entry.name} by {number(ratio)} times its own size (1e-3 is usual;"
            f" largest {number(largest[2])} at {largest[1].name}), and the loss went from {number(begin)} to"
            f" {number(after[1])} in step {after[0]}: {named} is too high and {what}" + self._left_dead(case),
            facts=[
                ("learning rate", value),
                (f"update over weight of {entry.name} in step {step}", ratio),
                ("first loss", begin),
                (f"loss in step {after[0]}", after[1]),
                *(tried(replay_of(case, case.trouble.first.step)) if case.trouble.first is not None else []),
            ],
            fix=(
                f"lower the learning rate 10 to 100 times{at(source)}: {kind}(…, lr={number((value or 0.1) / 30)})",
                "or warm it up over the first steps, and clip gradients",
            ),
            confirm=("run 20 steps with a tenth of the learning rate: the loss falls instead",),
        )

    @staticmethod
    def _left_dead(case: Case) -> str:
        """What stays, however low the rate is set in the middle of a run."""
        if "dead_relu" not in case.findings_of:
            return ""
        return (
            f". It has also thrown ReLU units so far off that they are dead since step {case.findings_of['dead_relu']}:"
            " zero for every sample, without a gradient to come back"
        )

    @staticmethod
    def _stays_bad(case: Case, begin: float, floor: float) -> bool:
        """A spike that training recovers from is no divergence; a large part of the run is, however it ends."""
        far = [value > 10 * floor for _, value in case.loss.points if math.isfinite(value)]
        if len(far) >= FEW and sum(far) > LARGE_PART * len(far):
            return True
        latest = [value for _, value in case.loss.points[-5:]]
        finite = [value for value in latest if math.isfinite(value)]
        return len(finite) < len(latest) or median(finite) > 2 * max(abs(begin), 1e-3)


class LrTooLow(Rule):
    """Gradients are there, but updates are too small to matter."""

    fault = "lr_too_low"
    also = MappingProxyType({"warmup_never_ends": "A warm-up counted in epochs that the training does not have."})
    category = "lr-schedule"
    finds = "A learning rate so low that weights practically do not move although their gradients are healthy."
    evidence = ("size of updates against weights", "gradients against weights", "course of loss and learning rate")
    explains = frozenset({"labels_shuffled_against_inputs"})
    symptom = True
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        part, source, kind = _optimizer(case)
        if part is None or case.updates < FEW:
            return []
        lr = case.lr(part.name)
        # An optimizer that was made later (a second stage, a training that goes on) answers for its own steps.
        since = max(0, lr.first_step) if lr is not None else 0
        updates = case.order.optimizer(part.name).steps if since else case.updates
        trend = case.loss.trend(since)
        if lr is None or lr.count < 3 or lr.most <= 0 or trend is None or _learns(trend) or updates < FEW:
            return []
        warming = not constant_or_falling(lr)
        by_epoch = warming and self._by_epoch(case)
        if warming and not (final and not case.crashed and case.updates >= LONG):
            return []  # warming up
        ratios = [
            (entry, ratio)
            for kept, entry, ratio in case.updates_seen()
            if kept.step >= since and entry.parameter.dtype.startswith("float32") and (entry.matrix or not warming)
        ]
        most = 10 * LOST if by_epoch else 3 * LOST if warming else LOST
        largest = max((ratio for _, ratio in ratios), default=math.inf)
        if len(ratios) < 5 or (largest > most and not self._nowhere(case, trend, largest, updates, warming)):
            return []
        idle = self._idle_scheduler(case, lr.most)
        if not self._gradients_are_there(case):
            return []
        typical = median([ratio for _, ratio in ratios])
        entry = ratios[0][0]
        return [
            self.finding(
                f"the learning rate {number(lr.most)} is too low: weights hardly move"
                + (", its warm-up never ends" if by_epoch else " in the whole run" if warming else ""),
                fault="warmup_never_ends" if by_epoch else "",
                confidence=0.88,
                since_step=since,
                where=where(
                    (idle.source if idle is not None else None) or source,
                    op=idle.type if idle is not None else f"{kind}.step",
                    network=entry.network,
                ),
                why=f"with learning rate {number(lr.most)} an update changes weights by {number(typical)} of"
                f" their size (1e-3 is"
                f" usual): too small to matter. Gradients are there, but after"
                f" {plural(updates, 'update')} the"
                f" loss is {number(trend.end)}, it began at {number(trend.begin)}"
                + self._resumed(case, since)
                + (self._never_stepped(idle) if idle is not None else ""),
                facts=[
                    ("learning rate, highest so far", lr.most),
                    ("update over weight, median", typical),
                    ("update over weight, largest", max(ratio for _, ratio in ratios)),
                    ("loss at the beginning", trend.begin),
                    ("loss now", trend.end),
                ],
                fix=(
                    *((f"call scheduler.step() after each optimizer.step(){at(idle.source)}",) if idle else ()),
                    f"raise the learning rate{at(source)}: 1e-3 for Adam, 1e-2 to 1e-1 for SGD are usual",
                ),
                confirm=("raise it 100 times for 50 steps: the loss moves",),
            )
        ]

    @staticmethod
    def _nowhere(case: Case, trend: Trend, largest: float, updates: int, warming: bool) -> bool:
        """Whether all updates in one direction would not have moved a weight by much, and guessing is as good."""
        chance = case.chance_loss()
        stuck = chance is not None and trend.end > 0.9 * chance
        return stuck and not warming and updates >= LONG and largest < 10 * LOST and largest * updates < NOWHERE

    @staticmethod
    def _resumed(case: Case, since: int) -> str:
        """What to say of an optimizer that came after another one had used up its rate."""
        before = [series for name, series in case.scalars.items() if name.startswith("lr") and series.last_step < since]
        if not since or not any(series.most > 100 * series.last for series in before):
            return ""
        return (
            ". The schedule before it had ended at a rate as low: the state of an optimizer brings its learning rate"
            " along when it is loaded"
        )

    @staticmethod
    def _idle_scheduler(case: Case, rate: float) -> Part | None:
        """A scheduler that lowered the rate when it was made, and has never been stepped since."""
        for (kind, _), part in case.parts.items():
            meant = part.settings.get("base_lr")
            if kind == "scheduler" and isinstance(meant, (int, float)) and rate < 0.5 * meant:
                return part if not case.order.scheduler_steps else None
        return None

    @staticmethod
    def _never_stepped(scheduler: Part) -> str:
        return (
            f". The scheduler {scheduler.type}{at(scheduler.source)} is never stepped, so the rate stays where it set"
            " it at first, as in the first step of a warm-up: scheduler.step() is missing"
        )

    @staticmethod
    def _by_epoch(case: Case) -> bool:
        """Whether the schedule steps so rarely that a warm-up counted in steps does not come to its end."""
        # by its own account, for a training that is watched in few of its steps
        steps = max(case.order.scheduler_counts.values(), default=case.order.scheduler_steps)
        return case.updates >= LONG and 2 <= steps <= case.updates / 10

    @staticmethod
    def _gradients_are_there(case: Case) -> bool:
        """Gradients large enough against their weights that an ordinary rate would move them."""
        sizes = []
        for kept in case.latest(3):
            for network in case.trained():
                for entry in case.layers(network):
                    gradient, weight = kept.gradient(entry), kept.weight(entry)
                    if gradient is not None and weight is not None and weight.abs_mean:
                        sizes.append(rms(gradient) / weight.abs_mean)
        return bool(sizes) and max(sizes) > 1e-3


class LrIsZero(Rule):
    """A learning rate of zero while training goes on."""

    fault = "lr_is_zero"
    category = "lr-schedule"
    finds = "A learning rate of zero for many steps: every update is empty."
    evidence = ("learning rate of each optimizer and group over the steps",)
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "lr_decays_too_fast"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for part in case.optimizers():
            calls = case.order.optimizer(part.name)
            groups = self._groups(case, part.name)
            if calls.steps < 10 or not groups:
                continue
            zero_since = max(self._zero_since(series) for series in groups)
            if min(self._zero_since(series) for series in groups) < 0:
                continue
            length = case.last_step - zero_since + 1
            if length < 10 or length < 0.2 * case.steps:
                continue  # the end of a schedule
            source = next(iter(case.order.schedulers.values()), None) if zero_since > 0 else part.source
            findings.append(
                self.finding(
                    f"the learning rate of {part.type} is zero",
                    confidence=0.95,
                    since_step=zero_since,
                    where=where(source or part.source, op=f"{part.type}.step"),
                    why=f"the learning rate is 0 since step {zero_since}: {plural(length, 'update')} changed"
                    f" nothing although"
                    " forward and backward passes went on",
                    facts=[("learning rate", 0.0), ("steps with it", length), ("highest rate before", groups[0].most)],
                    fix=(
                        "give the optimizer a learning rate above 0"
                        if zero_since == 0
                        else "let the schedule end at a small rate above 0, or end it with the training: count"
                        " its steps",
                    ),
                )
            )
        return findings

    @staticmethod
    def _groups(case: Case, name: str) -> list[Series]:
        own = [series for key, series in case.scalars.items() if key == f"lr/{name}" or key.startswith(f"lr/{name}/")]
        if own:
            return own
        return [case.scalars["lr"]] if "lr" in case.scalars and len(case.optimizers()) == 1 else []

    @staticmethod
    def _zero_since(series: Series) -> int:
        """The first step of the present run of zeros; -1 when the rate is not zero now."""
        since = -1
        for step, value in reversed(series.points):
            if value != 0:
                break
            since = step
        return since


class LrDecaysTooFast(Rule):
    """A schedule that has used up the learning rate long before the end."""

    fault = "lr_decays_too_fast"
    category = "lr-schedule"
    finds = "A schedule that brings the learning rate to a thousandth early in the run, as one stepped too often does."
    evidence = (
        "learning rate over the steps",
        "how often the scheduler steps, and what a plateau is looked for in",
        "course of the loss after it",
    )
    explains = frozenset({"lr_too_low"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        part, _, kind = _optimizer(case)
        lr = case.lr(part.name) if part is not None else None
        if part is None or lr is None or not lr.most > 0:
            return []
        upwards = next(
            (one for (noun, _), one in case.parts.items() if noun == "scheduler" and _upwards(case, one)), None
        )
        if upwards is not None:
            return [self._say_upwards(case, upwards, lr)]
        if not final or case.updates < 40 or not 0 < lr.last < 1e-3 * lr.most:
            return []  # steps that were slept through count: a fast training is watched in few of its own
        gone = _crossed(lr, 1e-3 * lr.most)
        if gone is None or case.last_step - gone < 0.5 * case.last_step:
            return []
        trend = case.loss.trend(since=gone)
        chance = case.chance_loss()
        if trend is None or not trend.flat(0.02):
            return []
        if trend.end < 0.2 * (chance or case.loss.first) and not self._cut_short(case, lr):
            return []
        source = next(iter(case.order.schedulers.values()), None)
        because, fix = self._because(case)
        return [
            self.finding(
                "the schedule has used up the learning rate",
                confidence=0.8,
                since_step=gone,
                where=where(source or part.source, op=f"{kind}.step"),
                why=f"the learning rate fell from {number(lr.most)} to below a thousandth of it by step {gone} of"
                f" {case.last_step + 1} and the loss has stood at {number(trend.end)} since: the rate is too low"
                f" for most of the"
                f" run. {because}",
                facts=[("highest rate", lr.most), ("rate now", lr.last), ("step at a thousandth", gone)],
                fix=(fix,),
            )
        ]

    def _say_upwards(self, case: Case, scheduler: Part, lr: Series) -> Finding:
        first, last, cuts = (scheduler.settings.get(name) for name in ("first_metric", "last_metric", "cuts"))
        return self.finding(
            f'{scheduler.type} with mode="max" cuts the learning rate because the loss falls',
            confidence=0.9,
            since_step=_whole(scheduler.settings.get("first_cut")),
            where=where(case.order.schedulers.get(scheduler.name) or scheduler.source, op=f"{scheduler.type}.step"),
            why=f'{scheduler.type} with mode="max" waits for its number to rise, but it is given the loss, which fell'
            f" from {number(_float(first))} to {number(_float(last))}: it takes that for no progress and has cut the"
            f" learning rate {plural(_whole(cuts), 'time')}, from {number(lr.most)} to {number(lr.last)}, while the"
            " loss was lower than ever. The rate is soon too low to learn with",
            facts=[
                ("first number it was given", _float(first)),
                ("latest", _float(last)),
                ("cuts of the rate", _whole(cuts)),
                ("of which when it was lower than ever", _whole(scheduler.settings.get("cuts_at_lowest"))),
            ],
            fix=('watch a loss with mode="min"; mode="max" is for an accuracy',),
        )

    @staticmethod
    def _cut_short(case: Case, lr: Series) -> bool:
        """Whether the loss was still falling when the rate was first cut."""
        cut = next((step for step, value in lr.points if value < 0.5 * lr.most), 0)
        before = [value for step, value in case.loss.points if cut / 2 <= step < cut and math.isfinite(value)]
        half = len(before) // 2
        return half >= 4 and median(before[half:]) < 0.9 * median(before[:half])

    @staticmethod
    def _because(case: Case) -> tuple[str, str]:
        watching = [part for (kind, _), part in case.parts.items() if kind == "scheduler" and "Plateau" in part.type]
        if watching and watching[0].settings.get("mode") == "max" and case.loss.last < case.loss.first:
            return (
                f'{watching[0].type} with mode="max" takes a falling loss for no progress, and cuts the rate each time',
                'watch a loss with mode="min"; mode="max" is for an accuracy',
            )
        return (
            "A scheduler that is made for epochs but stepped after each batch does this",
            "call scheduler.step() once per epoch, or give it the number of steps instead of epochs",
        )


def _learns(trend: Trend) -> bool:
    """Whether the loss went anywhere. That it stands a little higher than at first, by its noise, is no progress."""
    return not trend.flat(0.03) and not 0 < trend.end - trend.begin <= trend.noise


def _crossed(rate: Series, limit: float) -> int | None:
    """The step from which a rate lies below a limit; between two looks at it, it is taken to fall by equal shares."""
    before: tuple[int, float] | None = None
    for step, value in rate.points:
        if value < limit:
            if before is None or not value > 0 or step - before[0] <= 1:
                return step
            share = math.log(before[1] / limit) / math.log(before[1] / value)
            return before[0] + math.ceil(share * (step - before[0]))
        before = (step, value)
    return None


def _size_before(stats: Stats) -> float:
    """Mean size of a weight, before the update that it was looked at after."""
    return (stats.change.before_abs_mean if stats.change is not None else None) or stats.abs_mean or 0.0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _upwards(case: Case, scheduler: Part) -> bool:
    """Whether a scheduler waits for a loss to rise: it cuts the rate each time that it is lower than ever.

    That it is given the loss, and not an accuracy that gets worse, shows in the number: it is as large.
    """
    told = scheduler.settings
    cuts, lowest = _whole(told.get("cuts")), _whole(told.get("cuts_at_lowest"))
    if told.get("mode") != "max" or cuts < 2 or lowest < max(2, 0.7 * cuts):
        return False
    first, last = _float(told.get("first_metric")), _float(told.get("last_metric"))
    if not 0 < last < 0.95 * first:
        return False
    pairs = ((told.get("first_cut"), told.get("metric_at_cut")), (told.get("last_cut"), last))
    for step, metric in pairs:
        before = [value for at_step, value in case.loss.points if at_step <= _whole(step)][-10:]
        if len(before) < 3 or not 0.5 * median(before) < _float(metric) < 2 * median(before):
            return False
    return True
