"""What the network is fed is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept, abs_max
from tensight.diagnosis.losses import CLASS_LOSSES, LossSite
from tensight.diagnosis.rule import Fact, Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE, bad_values, beside_values, fed_bad, given_outside, replay_of
from tensight.diagnosis.words import at, bad_kind, median, number, plural, where
from tensight.records import Event, Finding, Observation, Replay, Source, TensorInfo

HUGE_INPUT = 1e3
FEW_BATCHES = 6
FAR = 100  # times the loss of guessing: a first loss that the scale of the input has made
GUESSING = 20  # steps after which one may say that nothing is learnt


def _loader_source(case: Case) -> Source | None:
    """Where the only loader was made, or fed from."""
    parts = [part for (kind, _), part in case.parts.items() if kind == "loader"]
    if len(parts) == 1 and parts[0].source is not None:
        return parts[0].source
    seen = list(case.batches.loaders.values())
    return seen[0].source if len(seen) == 1 else None


def _float_inputs(kept: Kept) -> list[tuple[Observation, TensorInfo]]:
    """Inputs that are measured values, not token numbers, masks or states.

    Where the parts of a network are called one by one, what goes from one to the next is none: it is no larger than
    what was made before.
    """
    fed = [pair for pair in kept.of_kind("input") if pair[0].phase == "forward"]
    first: dict[str, Observation] = {}
    for one, info in fed:
        if info.network not in first or one.order < first[info.network].order:
            first[info.network] = one
    made = [(one.order, info.network, abs_max(one.stats)) for one, info in kept.forward()]
    return [
        (one, info)
        for one, info in fed
        if info.dtype.startswith(("float", "bfloat")) and one.stats.count > 1
        if not info.node
        or one is first[info.network]
        or all(size < abs_max(one.stats) for order, name, size in made if order < one.order and name == info.network)
    ]


def _network(case: Case, info: TensorInfo | None) -> str:
    if info is not None and info.network:
        return info.network
    trained = case.trained()
    return trained[0] if trained else ""


def _made_in_loading(replay: Replay | None, step: int) -> Replay | None:
    """The replay of a step whose batch came out bad, where an operator outside of all modules is what made it so.

    The first bad operator of the step it is: what the network did came later, and had the batch already.
    """
    if replay is None or replay.step != step or replay.status not in ("exact", "close"):
        return None
    made = replay.facts.get("kind") == "made" and replay.phase == "forward" and not replay.module
    return replay if made else None


def _prepared(case: Case, info: TensorInfo | None, one: Observation | None) -> Event | None:
    """The division by zero that made the data bad before any network was called."""
    if info is None or one is None or not one.stats.nan:
        return None
    fed = tuple(one.shape or info.shape)
    for _, event in case.noted.of("divided_by_zero"):
        shape = tuple(int(size) for size in str(event.values.get("shape") or "0").split("x"))
        if not event.values.get("constant") or not math.prod(shape):
            continue
        bad = event.values.get("nan")
        share = (bad if isinstance(bad, int) else 0) / math.prod(shape)
        # the batch is rows of what was divided: it has the same columns, and the same share of them is NaN
        if shape[1:] == fed[1:] and abs(one.stats.nan / max(one.stats.count, 1) - share) < 1e-6:
            return event
    return None


class NanInInput(Rule):
    """A NaN or Inf in the data that reached the loss."""

    fault = "nan_in_input"
    also = MappingProxyType({"nan_in_target": "NaN or Inf in the targets of the loss, before anything was computed."})
    category = "data"
    finds = "A NaN or Inf that was already in the batch and reached loss, gradients, weights or an inferred answer."
    evidence = ("statistics of inputs and targets of the first bad step", "batch as the loader gave it")
    explains = NONFINITE | {"exploding_gradient", "lr_too_high", "loss_scale_keeps_falling"}
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        bad = case.trouble.first
        if bad is None:
            return []
        fed = bad.of_kind("input", "target")
        batch = case.batches.at(bad.step)
        replay = replay_of(case, bad.step)
        given = replay is not None and given_outside(case, replay)
        if not given and not fed_bad(case, bad):
            return []
        one, info = fed[0] if fed else (None, None)
        facts: list[Fact] = []
        if one is not None and info is not None:
            facts.append((f"{info.kind} of step {bad.step}", bad_values(one.stats)))
        if batch is not None:
            facts += [
                (key, value) for key, value in batch.nan_values.items() if key.startswith(("nan.", "index", "shape."))
            ]
        # Bad values that no module has passed on came in beside the network, into the loss.
        unmoved = bool(bad.kept.forward()) and not bad.of_kind("output", "activation")
        in_loss = False
        if replay is not None and given:
            from tensight.diagnosis.reasons import operator_name

            in_loss = operator_name(replay).endswith(("_loss", "cross_entropy"))
        beside = fed == [] and batch is None and (unmoved or in_loss)
        target = beside or (info is not None and info.kind == "target")
        where_row = ""
        if replay is not None and given:
            facts += [(f"replay: {key}", value) for key, value in replay.facts.items() if key in ("first_bad", "bad")]
            facts += beside_values(replay)
            if replay.facts.get("first_bad") is not None:
                where_row = f", first at position [{replay.facts['first_bad']}] of the batch"
        network = _network(case, info)
        source = _loader_source(case) or (replay.source if replay is not None and beside else None)
        index = batch.nan_values.get("index") if batch is not None else None
        said = f" (batch {index} of the loader)" if index is not None else ""
        what = "target" if target else "input"
        count = bad_values(one.stats) if one is not None else "NaN or inf values"
        kind = "NaN" if one is None else bad_kind(one.stats.nan, one.stats.inf, one.stats.neg_inf)
        reached = "" if bad.answer else " (outputs, loss, gradients, weights)"
        fix: tuple[str, ...] = (
            "drop or repair such samples when loading: torch.nan_to_num, or a check with torch.isfinite"
            " in the data set",
        )
        made = _made_in_loading(replay, bad.step) if batch is not None else None
        by, op = "", None
        if made is not None and made.source is not None:
            from tensight.diagnosis.reasons import explain, operator_name
            from tensight.diagnosis.reasons_words import namespace

            reason = explain(made)
            op = f"{namespace(made)}.{operator_name(made)}"
            source = made.source
            by = f". It was made when the batch was loaded, by {op}{at(source)}"
            by += f": {reason.why}" if reason is not None else ""
            fix = (*(reason.fix if reason is not None else ()), *fix)
            facts += [(f"input {place} of the operator", text) for place, text in enumerate(made.inputs)]
        prepared = _prepared(case, info, one) if made is None and not target else None
        title = f"the {what} of step {bad.step} holds {kind}"
        if prepared is not None:
            values = prepared.values
            source, op = prepared.source, "aten.div"
            constant = f"place {values.get('places')} of its {values.get('size')}"
            title += ": it was divided by a standard deviation or range of 0 before the training"
            by = (
                f". It was made while the data was prepared, by a division{at(source)}: the divisor is exactly 0 at"
                f" {constant} (counted from 0), and all of what it divides is 0 there too, so that column of the data"
                " is constant: its standard deviation (or range) is zero, and 0 / 0 is NaN, a division by zero"
            )
            facts += [("zeros in the divisor", values.get("zeros")), ("first constant column", values.get("column"))]
            fix = (
                "add a small constant to the divisor: / (std + 1e-8), or clamp it: std.clamp_min(1e-6)",
                "or drop the columns that are constant: keep = x.std(0) > 0",
            )
        then = ["the loss", "gradients", "every weight"] if bad.loss else []
        return [
            self.finding(
                title,
                fault="nan_in_target" if target else "",
                confidence=0.97,
                since_step=bad.step,
                where=where(source, module=None if target else case.first_module(network), op=op, network=network),
                why=f"the {what} data of step {bad.step}{said} held {count}{where_row} before the network saw"
                f" it; every NaN after it{reached} comes from this batch{by}",
                facts=facts,
                fix=fix,
                confirm=(f"look at batch {index if index is not None else bad.step}: (~torch.isfinite(x)).nonzero()",),
                since="in the data" if prepared is None else "before the first step, in what prepared the data",
                then=then,
                replay=replay.status if replay is not None else "",
            )
        ]


class ConstantInput(Rule):
    """Inputs that hold one number only."""

    fault = "constant_input"
    category = "data"
    finds = "Inputs that are one constant (often zero) in every sample of every step: there is nothing to learn from."
    evidence = ("smallest and largest value of each input, over steps",)
    explains = frozenset(
        {
            "dead_relu",
            "vanishing_gradient",
            "lr_too_low",
            "labels_shuffled_against_inputs",
            "zero_init",
            "detach_breaks_graph",
        }
    )
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        values: set[float] = set()
        first: TensorInfo | None = None
        steps: list[Kept] = []
        for kept in case.deep():
            steps += [kept] if kept.of_kind("input") else []
            for one, info in kept.of_kind("input"):
                stats = one.stats
                if one.phase != "forward" or stats.count < 2:
                    continue
                if stats.bad or stats.min is None or stats.min != stats.max:
                    return []  # something varies
                values.add(float(stats.min))
                first = first or info
        if first is None or len(values) != 1 or len(steps) < 3:
            return []
        value = values.pop()
        network = _network(case, first)
        zero = "zero" if value == 0 else f"the constant {number(value)}"
        return [
            self.finding(
                f"every input is {zero}",
                confidence=0.95,
                since_step=steps[0].step,
                where=where(_loader_source(case), module=case.first_module(network), network=network),
                why=f"all values of the input batch are {zero}, in each of"
                f" {plural(len(steps), 'observed step')}: the data carries no information, and the network can"
                " only learn how frequent each target is",
                facts=[("smallest and largest input value", value), ("observed steps", len(steps))],
                fix=(
                    "look at how the input is made: an integer division (x // 255 of bytes is 0), a wrong column, an"
                    " unfilled buffer; divide as float: x.float() / 255",
                ),
                confirm=("print x.min(), x.max() of a batch just before the model is called",),
            )
        ]


class InputNotNormalised(Rule):
    """Inputs of a magnitude that breaks the first steps."""

    fault = "input_not_normalised"
    category = "data"
    finds = "Inputs in the thousands or more that make the first loss and gradients astronomically large."
    evidence = ("range of inputs", "first loss and gradients", "course of the loss")
    explains = (
        frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu", "huge_init"}) | NONFINITE
    )
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not case.beginning or case.beginning[0].step != 0:
            return []
        first = case.beginning[0]
        fed = [(one, info, abs_max(one.stats)) for one, info in _float_inputs(first)]
        if not fed:
            return []
        one, info, largest = max(fed, key=lambda three: three[2])
        if largest < HUGE_INPUT or not self._harmed(case, largest):
            return []
        network = _network(case, info)
        stats = one.stats
        spread = f"from {number(stats.min)} to {number(stats.max)}"
        return [
            self.finding(
                "the input is not normalised",
                confidence=0.92,
                since_step=0,
                where=where(_loader_source(case), module=case.first_measuring(network), network=network),
                why=f"input values range {spread} (mean magnitude {number(stats.abs_mean)}, std"
                f" {number(stats.std)}), where networks"
                " expect about 1: features of such a scale make the first gradients and the first loss"
                f" ({number(case.loss.first)}) huge, and training diverges",
                facts=[
                    ("smallest input", stats.min),
                    ("largest input", stats.max),
                    ("std of the input", stats.std),
                    ("first loss", case.loss.first),
                    ("gradient norm of the first step", first.gradient_norm),
                ],
                fix=(
                    "standardise each feature before training: (x - x.mean(0)) / x.std(0), with numbers of the"
                    " training set",
                ),
                confirm=("divide the inputs by their std: the first loss falls by orders of magnitude",),
                since="since the first batch",
            )
        ]

    def _harmed(self, case: Case, largest: float) -> bool:
        if case.loss.count < 3:
            return False
        begin = case.loss.first
        chance = case.chance_loss()
        high = chance is not None and begin > 1e3 * max(chance, 1.0)
        latest = [value for _, value in case.loss.points[-5:]]
        lost = any(not math.isfinite(value) for value in latest)
        return (
            lost
            or case.trouble.first is not None
            or (high and median(latest) > 0.01 * begin)
            or (case.diverged() and median(latest) > abs(begin))
            or self._guesses(case, begin)
        )

    @staticmethod
    def _guesses(case: Case, begin: float) -> bool:
        """Whether the first updates have thrown the weights so far off that guessing is all that is left."""
        trend, chance = case.loss.trend(), case.chance_loss()
        if trend is None or chance is None or case.steps < GUESSING:
            return False
        return begin > FAR * max(chance, 1.0) and trend.end > 0.95 * chance


class SortedByClass(Rule):
    """Batches of one class each, in order."""

    fault = "unshuffled_sorted_by_class"
    category = "data"
    finds = (
        "Data sorted by class and not shuffled: most batches hold a single class, and the class changes over the epoch."
    )
    evidence = ("classes in each batch of labels", "whether the loader shuffles")
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_high", "exploding_gradient"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            if self._sorted(site):
                return [self._say(case, site)]
        return []

    @staticmethod
    def _sorted(site: LossSite) -> bool:
        """Single-class batches of several classes, that chance could not make."""
        batches, single = site.labelled, sum(site.single.values())
        if site.function not in CLASS_LOSSES or batches < FEW_BATCHES or site.batch < 4:
            return False
        if len(site.single) < 2 or single < 0.6 * batches:
            return False
        # If batches were drawn at random from these shares of classes, how many would hold one class only?
        shares = [count / single for count in site.single.values()]
        expected = batches * sum(share**site.batch for share in shares)
        # A sorted epoch changes class rarely; labels that alternate by design (real, fake) do so each time.
        return expected < 0.01 * single and site.neighbours >= 3 and site.class_changes <= 0.5 * site.neighbours

    def _say(self, case: Case, site: LossSite) -> Finding:
        single = sum(site.single.values())
        parts = [
            part for (kind, _), part in case.parts.items() if kind == "loader" and not part.settings.get("shuffle")
        ]
        source = (
            next((part.source for part in parts if part.source is not None), None)
            or _loader_source(case)
            or site.source
        )
        return self.finding(
            "the data is sorted by class and not shuffled",
            confidence=0.93,
            since_step=site.first_step,
            where=where(source, op="DataLoader" if parts else site.function),
            why=f"{single} of {site.labelled} batches hold a single class (one label in all {site.batch}"
            f" samples), and the class"
            f" changes only {plural(site.class_changes, 'time')}: the data comes in the order of its labels, so"
            f" the network"
            " learns one class at a time and forgets the others",
            facts=[
                ("batches with one class only", single),
                ("batches seen", site.labelled),
                ("mean entropy of labels per batch (nats)", site.entropy / max(site.labelled, 1)),
                ("classes among them", len(site.single)),
            ],
            fix=("shuffle the training data: DataLoader(…, shuffle=True), or a random permutation of the indices",),
            confirm=("print y.unique() for the first batches",),
        )


class LabelsUnrelated(Rule):
    """Everything works, but the loss never leaves chance: labels share nothing with the inputs."""

    fault = "labels_shuffled_against_inputs"
    category = "data"
    finds = (
        "Labels that share no information with the inputs: all parts work, and the loss stays at what guessing gives."
    )
    evidence = (
        "loss against the entropy of the labels",
        "sizes of gradients and updates",
        "a probe of inputs and labels",
    )
    symptom = True
    every = 0

    @staticmethod
    def _permuted(case: Case) -> tuple[Source | None, bool]:
        """The line that puts one of the two into a new order and the other not, and whether that is certain."""
        found = sorted(case.noted.of("permuted"), key=lambda one: bool(one[1].values.get("values")))
        for _, event in found:
            if event.source is not None:
                return event.source, not event.values.get("values")
        return None, False

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        probe = case.scalars.get("probe/label_information")
        moved, certain = self._permuted(case)
        # What a sequence says may lie in its order, which the probe does not know: a new order of one of the two is
        # needed beside it.
        if probe is None and moved is not None:
            probe = case.scalars.get("probe/token_information")
        site = case.losses.main()
        # One batch tells how many classes there are, but not how far targets of a regression are spread.
        regression = site is not None and site.function == "mse_loss"
        chance = case.losses.guessing() if regression else case.chance_loss()
        if probe is None or probe.last > 0 or site is None or chance is None or case.updates < 100:
            return []
        if "lr_decays_too_fast" in case.findings_of:
            return []  # nothing more could be learnt, whatever the labels are
        trend = case.loss.trend()
        # A permutation of one of the two alone is proof; a large network may then learn some samples by heart.
        if trend is None or trend.end < (0.6 if certain else 0.9) * chance:
            return []
        return [
            self.finding(
                "labels are unrelated to the inputs",
                confidence=0.88 if moved is not None else 0.7,
                since_step=0,
                where=where(moved or _loader_source(case) or site.source),
                why=f"after {plural(case.updates, 'update')} the loss is {number(trend.end)}, what"
                f" guessing gives is"
                f" {number(chance)}; gradients and updates are healthy, and a small probe finds no relation"
                f" between inputs and"
                " labels either: they are shuffled or misaligned against each other",
                facts=[("loss now", trend.end), ("loss of guessing", chance)],
                fix=("shuffle inputs and labels with the same permutation; look at a few pairs by eye",),
            )
        ]
