"""Data that changes, repeats or jumps while training goes on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept, abs_max
from tensight.diagnosis.losses import REGRESSION_LOSSES
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE, given_outside, replay_of
from tensight.diagnosis.words import at, median, number, plural, where
from tensight.records import Finding

DRIFT = 3.0  # times, from the first to the last part of a run
SEEN_DRIFT = 1.3  # where what is stored was seen to be written to; each worker changes a part of its own copy
PARTS = 4
JUMP = 50.0  # times the usual largest value
LARGE_TARGET = 1e3
SEEDED = 10  # times the same seed, in as many steps
ALL_OF = 0.8  # of the steps between the first and the last of them
FEW_ALIKE = 4  # steps with the same inputs


class StoredDataChanges(Rule):
    """Batches of a loader that grow or shrink all along: the stored samples are being changed."""

    fault = "stored_data_changes"
    category = "data"
    finds = "A data set whose samples drift from epoch to epoch, since something changes them in place."
    evidence = (
        "spread of batches over the run, in the order they came",
        "tensors of the data set that are written to while samples are fetched",
    )
    explains = frozenset({"exploding_activation", "lr_too_high", "dead_relu", "exploding_gradient"}) | NONFINITE
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, seen in case.batches.loaders.items():
            values = [value for _, value in seen.sizes if math.isfinite(value)]
            if len(values) < 10 * PARTS or seen.restarts < 3:
                continue
            size = len(values) // PARTS
            parts = [median(values[at * size : (at + 1) * size]) for at in range(PARTS)]
            rising = all(a < b for a, b in itertools.pairwise(parts))
            falling = all(a > b for a, b in itertools.pairwise(parts))
            if not (rising or falling) or min(parts[0], parts[-1]) <= 0:
                continue
            ratio = max(parts[0], parts[-1]) / min(parts[0], parts[-1])
            into = next((event for _, event in case.noted.of("stored_written") if event.part == name), None)
            if ratio < (DRIFT if into is None else SEEN_DRIFT):
                continue
            written = (
                f"dataset.{into.values.get('attribute')} is written to while samples are fetched. " if into else ""
            )
            part = case.parts.get(("loader", name))
            network = next(iter(case.trained()), "")
            yield self.finding(
                "the stored data changes while training",
                confidence=0.88,
                since_step=max(seen.second_epoch, 0),  # until then each was changed at most once
                where=where(
                    (part.source if part else None) or seen.source,
                    op="DataLoader",
                    module=case.first_module(network) if network else None,
                    network=network or None,
                ),
                why=f"the spread (std) of the batches went steadily from {number(parts[0])} to {number(parts[-1])} over"
                f" {plural(seen.restarts, 'epoch')}: the data drifts. {written}Samples are changed in place where they"
                " are stored, as x *= … or x += … on what the data set returns does, so each epoch changes them again",
                facts=[
                    ("std of batches in the first quarter", parts[0]),
                    ("in the last quarter", parts[-1]),
                    ("epochs", seen.restarts),
                ],
                fix=("work on a copy in __getitem__: x = self.x[i].clone(), or x = x * … instead of x *= …",),
                confirm=("compare one stored sample before and after an epoch",),
            )


class SameBatchEveryStep(Rule):
    """A loader that is started anew for every batch and does not shuffle."""

    fault = "same_batch_every_step"
    category = "data"
    finds = "A loader whose first batch is taken again and again: next(iter(loader)) in the loop."
    evidence = ("place of each batch in its epoch", "whether the loader shuffles", "how many batches it has")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, seen in case.batches.loaders.items():
            part = case.parts.get(("loader", name))
            batches = part.settings.get("batches") if part is not None else None
            if part is None or part.settings.get("shuffle") or not isinstance(batches, int) or batches < 2:
                continue
            if part.settings.get("sampler") not in ("SequentialSampler", None):
                continue
            if seen.restarts < 10 or seen.restarts < seen.count or seen.count < 0.9 * case.order.updates:
                continue
            yield self.finding(
                "only the first batch of the loader is used",
                confidence=0.92,
                since_step=0,
                where=where(part.source or seen.source, op="DataLoader"),
                why=f"{name} was started anew for each of {plural(seen.count, 'batch')} and does not shuffle, so"
                f" every step"
                f" trained on the same first batch of {batches}: next(iter(loader)) in the loop begins again each time",
                facts=[
                    ("batches taken", seen.count),
                    ("of which the first of an epoch", seen.restarts),
                    ("batches in it", batches),
                ],
                fix=("loop over the loader itself: for x, y in loader",),
            )


class BatchDrawnAlike(Rule):
    """A generator that is seeded anew before each batch is drawn."""

    fault = "batch_drawn_alike"
    category = "data"
    finds = "A seed that is set again in every step before the batch is drawn, so that each step has the same batch."
    evidence = ("seeds set in the loop, and whether numbers were drawn after them", "inputs of each step, compared")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("reseeded"):
            since, steps, seed = (event.values.get(name) for name in ("since", "steps", "seed"))
            if not isinstance(since, int) or not isinstance(steps, int) or steps > SEEDED / ALL_OF:
                continue
            alike = self._alike(case, since)
            if alike < FEW_ALIKE:
                continue
            name = {"torch": "torch.manual_seed", "numpy": "np.random.seed", "random": "random.seed"}
            call = f"{name.get(str(event.values.get('generator')), 'seed')}({seed})"
            yield self.finding(
                "every step draws the same batch: the seed is set again in the loop",
                confidence=0.92,
                since_step=since,
                where=where(event.source, network=event.part or None),
                why=f"{call} is called in each step{at(event.source)}, and random numbers are drawn after it before the"
                f" network is called: every step repeats the same draws. The input of the network was identical in all"
                f" {alike} steps from step {since} on that were looked at, so it trains on one and the same batch (with"
                " the same noise) again and again, learns it by heart, and sees nothing else of the data",
                facts=[("steps with identical inputs", alike), ("seed", seed), ("first step", since)],
                fix=("set the seed once, before the loop",),
                confirm=("print the sum of the inputs of two steps: it is the same",),
            )
            return

    @staticmethod
    def _alike(case: Case, since: int) -> int:
        """How many steps had the very same inputs; 0 where one had others."""
        seen: set[tuple[object, ...]] = set()
        count = 0
        for kept in case.deep():
            fed = [one for one, _ in kept.of_kind("input") if one.phase == "forward" and one.stats.count > 1]
            if kept.step <= since or not fed:
                continue
            seen.add(tuple((one.tensor, one.stats.min, one.stats.max, one.stats.mean, one.stats.std) for one in fed))
            count += 1
        return count if len(seen) == 1 else 0


class TargetNotNormalised(Rule):
    """Regression targets so large that the network cannot reach them."""

    fault = "target_not_normalised"
    category = "data"
    finds = "Regression targets in the thousands or more that the network does not get near."
    evidence = ("range and variance of targets", "course of the loss against the variance")
    explains = (
        frozenset({"lr_too_low", "lr_too_high", "exploding_gradient", "labels_shuffled_against_inputs"}) | NONFINITE
    )
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            if site.function not in REGRESSION_LOSSES or case.updates < 50:
                continue
            low, high = site.number("target_min"), site.number("target_max")
            variance = site.number("target_variance")
            if low is None or high is None or variance is None or max(abs(low), abs(high)) < LARGE_TARGET:
                continue
            if case.steps < 50:
                continue
            guess = variance if site.function == "mse_loss" else variance**0.5
            latest = [value for _, value in case.loss.points[-10:]]
            lost = any(not math.isfinite(value) for value in latest) or median(latest) > 1.2 * guess
            if not lost:
                continue
            yield self.finding(
                "the targets are not normalised",
                confidence=0.88,
                since_step=site.first_step,
                where=where(site.source, op=site.function),
                why=f"targets range from {number(low)} to {number(high)}, where networks give values of about 1:"
                " of such a"
                f" scale the loss is {number(case.loss.first)} at first and {number(median(latest))} after"
                f" {plural(case.updates, 'update')}, worse than the {number(guess)} that"
                " the mean of the targets as a constant answer would give",
                facts=[
                    ("smallest target", low),
                    ("largest target", high),
                    ("loss now", median(latest)),
                    ("loss of the mean", guess),
                ],
                fix=("standardise the targets: (y - y.mean()) / y.std(), and undo it on the predictions",),
            )


class OutlierBatch(Rule):
    """One batch with values far beyond all others, after which training is broken."""

    fault = "outlier_batch"
    category = "data"
    finds = "A single batch with inputs or targets many times larger than all before, which breaks the training."
    evidence = ("largest input and target of each step", "course of the loss before and after")
    explains = (
        frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu", "input_not_normalised"})
        | NONFINITE
    )
    every = 10
    urgent = True

    def __init__(self) -> None:
        self._said: Finding | None = None

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not self._broken(case):
            return
        if self._said is not None:  # the step itself may no longer be kept
            if not self._has_operator(case, self._said.since_step):
                yield self._said
            return
        usual: dict[int, list[float]] = {}
        for kept in case.deep():
            for one, info in kept.of_kind("input", "target"):
                if one.phase != "forward" or not info.dtype.startswith(("float", "bfloat")) or one.stats.bad:
                    continue
                size, before = abs_max(one.stats), usual.setdefault(one.tensor, [])
                if len(before) >= 5 and size > JUMP * max(before) > 0 and self._then(case, kept):
                    self._said = self._say(case, kept, info.kind, size, median(before))
                    if not self._has_operator(case, kept.step):
                        yield self._said
                    return
                before.append(size)

    @staticmethod
    def _broken(case: Case) -> bool:
        first = case.loss.first
        if case.loss.count < 8 or not math.isfinite(first):
            return False
        latest = [value for _, value in case.loss.points[-3:]]
        return any(not math.isfinite(value) for value in latest) or case.loss.most > 30 * (abs(first) + 1e-3)

    @staticmethod
    def _has_operator(case: Case, step: int) -> bool:
        """Whether an operator is known that turned finite values of this step into others: then it is to be mended."""
        replay = replay_of(case, step)
        return replay is not None and not given_outside(case, replay)

    @staticmethod
    def _then(case: Case, kept: Kept) -> bool:
        """Whether the loss left its course in this very step and did not come back at once."""
        before = [value for step, value in case.loss.points if step < kept.step and math.isfinite(value)]
        here = [value for step, value in case.loss.points if step == kept.step]
        after = [value for step, value in case.loss.points if kept.step < step <= kept.step + 10]
        if not before or not here:
            return False
        usual = median(before[-20:])
        jumped = not math.isfinite(here[0]) or here[0] > 10 * (abs(usual) + 1e-6)
        stays = not after or any(not math.isfinite(value) for value in after) or median(after) > 3 * (abs(usual) + 1e-6)
        return jumped and stays

    def _say(self, case: Case, kept: Kept, kind: str, size: float, usual: float) -> Finding:
        batch = next((event for event in kept.record.events if event.kind == "batch"), None)
        index = batch.values.get("index") if batch is not None else None
        said = f" (batch {index} of the loader)" if index is not None else ""
        network = next(iter(case.trained()), "")
        return self.finding(
            f"the batch of step {kept.step} holds outliers",
            confidence=0.9,
            since_step=kept.step,
            where=where(
                batch.source if batch is not None else None,
                module=case.first_module(network) if kind == "input" else None,
                network=network or None,
            ),
            why=f"the {kind} of step {kept.step}{said} reaches {number(size)}, {number(size / usual)} times the usual"
            f" {number(usual)}: this batch of data is an outlier. The loss jumped to {number(kept.record.loss)} in"
            f" this very"
            " step, and the update it made broke the training; before, updates and losses were ordinary",
            facts=[
                (f"largest {kind} of the step", size),
                ("usual", usual),
                ("loss of the step", kept.record.loss),
                ("first loss", case.loss.first),
            ],
            fix=("drop or clamp such samples when loading, and clip gradients so that one batch cannot do this",),
            confirm=(f"leave out the batch of step {kept.step}: the loss goes on as before",),
        )
