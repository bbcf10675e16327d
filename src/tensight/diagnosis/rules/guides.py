"""Networks that guide a training without being trained: teachers, targets, running means of weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.modes import Guide
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.mode import sensitive
from tensight.diagnosis.rules.precision import SPACING
from tensight.diagnosis.words import at, median, number, plural, some, where
from tensight.records import Event, Finding

STEPS = 20  # between the first and the last look at the weights
MARKS = 3
PARTS = 5  # steps in which a part gave the target
LOST = 0.4  # share of the values that eight and more updates in a row leave as they were; in float32 it is next to 0
PAIRS = 4  # of steps in a row
OUTSIDE = 1e-7  # relative change of a mean magnitude between an update and the next step
BEHIND = 0.1  # difference of the mean magnitudes


def watched(case: Case) -> Iterable[tuple[str, Guide]]:
    """Guides that were looked at for long enough while something else was trained."""
    others = set(case.trained())
    for name, guide in case.modes.guides.items():
        if name not in case.networks or name in others or not others:
            continue
        if guide.marks >= MARKS and guide.last_step - guide.first_step >= STEPS:
            yield name, guide


class GuideInTrainingMode(Rule):
    """A fixed network that is asked for targets or features in training mode."""

    fault = "frozen_network_in_training_mode"
    category = "mode"
    finds = "A frozen teacher or backbone left in training mode: its dropout is random and its batch norm drifts."
    evidence = (
        "mode of a network that needs no gradients, in the steps that train another",
        "whether its weights stay as they are: a running mean of another network's weights may be in training mode",
        "dropout and batch norm modules in it",
        "of a frozen part of the trained network: whether the target of the loss is what it answered",
    )
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "frozen_batchnorm_still_updates"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        yield from self._parts(case)
        for name, guide in watched(case):
            if min(guide.shares) < 1 or guide.in_eval or guide.in_training < STEPS or guide.writes:
                continue  # a weight that is written in place is kept up to date, if to no effect
            affected = sensitive(case, name)
            if not affected:
                continue
            kinds = some(sorted({module.type for module in affected}))
            yield self.finding(
                f"{name} is frozen but runs in training mode",
                confidence=0.86,
                since_step=guide.first_step,
                where=where(guide.source, module=affected[0].path, op="eval", network=name),
                why=f"{name} has no trainable parameters and its weights never change, yet all of its"
                f" {plural(guide.in_training, 'forward pass')} {at(guide.source).strip()} ran in training mode:"
                f" {name}.eval() was not called, so {plural(len(affected), 'module')} ({kinds}) behave as in training:"
                " dropout makes what it answers random, and batch norm uses the batch and lets its running statistics"
                " drift with the data",
                facts=[
                    ("forward passes in training mode", guide.in_training),
                    ("forward passes in evaluation mode", 0),
                    ("modules this matters to", len(affected)),
                ],
                fix=(f"call {name}.eval() once, after it was loaded or frozen",),
                confirm=(f"ask {name} twice with the same batch: the answers differ",),
            )

    def _parts(self, case: Case) -> Iterable[Finding]:
        """The same of a part of the trained network that gives the target of its loss."""
        told: dict[tuple[str, str], list[tuple[int, Event]]] = {}
        for step, event in case.noted.of("fixed_part"):
            told.setdefault((event.part, str(event.values.get("module"))), []).append((step, event))
        for (network, part), seen in told.items():
            modes = {event.values.get("training") for _, event in seen}
            weights = {event.values.get("size") for _, event in seen}
            if len(seen) < PARTS or case.updates < STEPS or modes != {True} or len(weights) > 1:
                continue  # a running mean of the student may stay in training mode
            first, event = seen[0]
            said, kinds = event.values.get("count"), event.values.get("kinds")
            count = said if isinstance(said, int) else 1
            source = case.source_of(network, part)
            yield self.finding(
                f"{part} is frozen but runs in training mode",
                confidence=0.86,
                since_step=first,
                where=where(event.source or source, module=part, op="eval", network=network),
                why=f"{part} has no trainable parameters, its weights never change and the target of the loss is what"
                f" it answers: it is a teacher. Yet in all {plural(len(seen), 'step')} that were looked at"
                f" {plural(count, 'module')} of it ({kinds}) ran in training mode: model.train() switches frozen parts"
                f" too, and {part}.eval() was not called after it. So dropout makes the target random, and batch norm"
                " uses the batch and lets its running statistics drift",
                facts=[
                    ("steps whose target it gave", len(seen)),
                    ("of these in training mode", len(seen)),
                    ("modules this matters to", count),
                ],
                fix=(f"call model.{part}.eval() after model.train(), or override train() of the model to do so",),
                confirm=(f"ask {part} twice with the same batch: the answers differ",),
            )


class AverageBackwards(Rule):
    """A running mean of weights that is written into the network that trains, instead of out of it."""

    fault = "ema_direction_swapped"
    category = "optimizer-update"
    finds = "A moving average that runs the wrong way: the trained network is pulled back to a copy that never changes."
    evidence = (
        "weights of the trained network after an update against those before the next one",
        "a frozen network with the same parameters, and whether its weights ever change",
    )
    explains = frozenset({"weights_overwritten", "lr_too_low", "average_lost_to_rounding"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, guide in watched(case):
            if min(guide.shares) < 1 or guide.writes:
                continue
            own = _shapes(case, name)
            for trained in case.trained():
                if own and own == _shapes(case, trained):
                    moved = self._outside(case, trained)
                    if moved is not None:
                        yield self._say(case, name, trained, *moved)

    @staticmethod
    def _outside(case: Case, network: str) -> tuple[Entry, int, int] | None:
        """(a weight, since which step, in how many pairs of steps) that changes between updates, each time."""
        pairs = [(now, then) for now, then in itertools.pairwise(case.deep()) if then.step == now.step + 1]
        for entry in case.layers(network):
            seen = [
                (now.step, after.abs_mean, later.change.before_abs_mean)
                for now, then in pairs
                if (after := now.weight(entry)) is not None
                and (later := then.weight(entry)) is not None
                and later.change is not None
                and after.abs_mean
            ]
            if len(seen) >= PAIRS and all(abs(before - after) > OUTSIDE * after for _, after, before in seen):
                return entry, seen[0][0], len(seen)
        return None

    def _say(self, case: Case, guide: str, trained: str, entry: Entry, since: int, pairs: int) -> Finding:
        return self.finding(
            f"the moving average runs the wrong way: {trained} is pulled to {guide}",
            confidence=0.86,
            since_step=since,
            where=where(
                case.source_of(trained, entry.parameter.module),
                module=entry.parameter.module,
                parameter=entry.name,
                op="ema",
                network=trained,
            ),
            why=f"{guide} has the same parameters as {trained} and never changes, not by one bit, while {entry.name} of"
            f" {trained} is changed outside the optimizer after every update (in all {pairs} pairs of steps that were"
            f" looked at). So the average (EMA) is written into the student that trains, and the teacher is never"
            " updated: its arguments are swapped, and each update is partly undone",
            facts=[
                (f"steps after which {entry.name} was changed outside the optimizer", pairs),
                (f"share of {guide} that is unchanged", 1.0),
            ],
            fix=(f"swap them: update {guide} from {trained}, p_{guide} = d * p_{guide} + (1 - d) * p_{trained}",),
            confirm=(f"compare a weight of {guide} before and after a step: it should move",),
        )


def _shapes(case: Case, network: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.name, tuple(one.shape)) for one in case.networks[network].parameters if not one.buffer]


class AverageLost(Rule):
    """A running mean of weights that does not move because its number format is too coarse."""

    fault = "average_lost_to_rounding"
    category = "precision"
    finds = "A running mean of weights (EMA, target network) in bfloat16 or float16 whose small steps round away."
    evidence = ("how often a weight of an untrained network was written in place", "whether its values changed")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, guide in watched(case):
            if guide.dtype not in SPACING or guide.writes < 0.9 * (guide.last_step - guide.first_step):
                continue
            share = median(guide.shares) if guide.shares else 0.0
            if len(guide.shares) < MARKS or share < LOST or not self._behind(case, guide):
                continue
            module = guide.parameter.rpartition(".")[0]
            yield self.finding(
                f"the running mean of weights in {name} is lost to rounding",
                fault="bf16_lost_updates" if guide.dtype == "bfloat16" else "fp16_lost_updates",
                confidence=0.86,
                since_step=self._began(guide),
                where=where(
                    case.source_of(name, module), module=module, parameter=guide.parameter, op="ema", network=name
                ),
                why=f"{guide.parameter} of {name} ({guide.dtype}) was written in place {plural(guide.writes, 'time')}"
                f" from step {guide.first_step} to {guide.last_step}, yet {number(100 * share)} % of it is unchanged,"
                f" bit by bit, from one look to the next, and it is far from the weight that it follows: a value of"
                f" {guide.dtype} moves only by {number(100 * SPACING[guide.dtype])} % of itself or more, and smaller"
                " updates of a running mean are lost to rounding, so it lags behind",
                facts=[
                    ("times written in place", guide.writes),
                    ("share of values that did not change", share),
                    ("steps looked at", guide.last_step - guide.first_step),
                    ("spacing of the format relative to a value", SPACING[guide.dtype]),
                ],
                fix=(f"keep the averaged weights of {name} in float32, and convert a copy where they are used",),
                confirm=("count the values of a weight that an update of the mean changes: with float32 nearly all",),
            )

    @staticmethod
    def _began(guide: Guide) -> int:
        """The step of its first update: it was written at the same pace before it was first called."""
        pace = guide.writes / max(1, guide.last_step - guide.first_step)
        return max(0, guide.first_step - round(guide.written / pace))

    @staticmethod
    def _behind(case: Case, guide: Guide) -> bool:
        """Whether a weight of this name is trained in another network and is of another size: it has yet to follow."""
        for network in case.trained():
            entry = case.ledger.get(network, guide.parameter)
            if entry is None or not entry.held or entry.first_move < 0:
                continue
            seen = [stats for kept in case.latest(8) if (stats := kept.weight(entry)) is not None]
            size = seen[-1].abs_mean if seen else None
            if size and abs(size - guide.size) > BEHIND * size:
                return True
        return False
