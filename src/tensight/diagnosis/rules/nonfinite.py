"""Where the first value that is not finite came from: forward, loss, backward or update."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tensight.diagnosis.case import Case
from tensight.diagnosis.reasons_names import NAMES
from tensight.diagnosis.reasons_words import namespace
from tensight.diagnosis.rule import Fact, Rule
from tensight.diagnosis.trouble import BadStep
from tensight.diagnosis.words import at, bad_kind, called, number, plural, where
from tensight.records import Evidence, Finding, Observation, Replay, Source, Stats, TensorInfo, Where

if TYPE_CHECKING:
    from tensight.diagnosis.reasons import Reason

# Faults that a value which is not finite may be named by.
NONFINITE = frozenset({"nonfinite_value", *NAMES})

# What a line of code may do to finite values, when no operator was seen: words in it → fault, and what to say.
_RISKS = (
    (r"\blog(?:2|10|1p)?\s*\(", "log_of_zero", "log", "log of 0 is -inf"),
    (r"\bsqrt\s*\(|\*\*\s*0?\.5\b|\bnorm\s*\(", "sqrt_zero_gradient", "sqrt", "sqrt has an infinite slope at 0"),
    (r"\bexp\s*\(", "exp_overflow", "exp", "exp overflows above 88 in float32"),
    (r"(?<!/)/(?!/)", "division_by_zero", "div", "a division by 0 is inf or NaN"),
)


_MOST_SAMPLES = 5  # that are named in the sentence; the evidence lists more
_RUN_AGAIN = "run once with --rewind: the bad step is run again and the operator named"


def bad_values(stats: Stats) -> str:
    """
    >>> bad_values(Stats(count=10, nan=2, pos_inf=1)), bad_values(Stats(count=10, neg_inf=3))
    ('2 NaN and 1 inf of 10 values', '3 -inf of 10 values')
    """
    counts = ((stats.nan, "NaN"), (stats.pos_inf, "inf"), (stats.neg_inf, "-inf"))
    said = [f"{count} {name}" for count, name in counts if count]
    return f"{' and '.join(said)} of {stats.count} values"


def fed_bad(case: Case, bad: BadStep) -> bool:
    """Whether what the step was fed was bad already.

    What one network is fed may come from another: a replay tells when an operator between them made it bad.
    """
    if case.batches.at(bad.step) is not None:
        return True
    replay = replay_of(case, bad.step)
    made = replay is not None and replay.facts.get("kind") == "made"
    return not made and bool(bad.of_kind("input", "target"))


def replay_of(case: Case, step: int) -> Replay | None:
    """The replay of a step that shows an operator.

    Where losses are not read in every step, it may show one of an earlier step: any since the last finite loss.
    """
    first = step - 1 if case.trouble.good < 0 else min(step - 1, case.trouble.good)
    for replay in reversed(case.replays):
        if replay.operator and replay.status in ("exact", "close") and first <= replay.step <= step + 1:
            return replay
    return None


def _line_of_loss(case: Case, replay: Replay, name: str) -> Source | None:
    """Where a graph was read, which knows no lines: that of the loss, when it calls this very operator."""
    site = case.losses.main()
    if replay.module or site is None or site.source is None:
        return None
    return site.source if re.search(rf"\b{re.escape(name)}\b", site.source.code) else None


def _with_fruitless(finding: Finding, case: Case, step: int) -> Finding:
    """What is said where the bad step was run again in vain, or could not be."""
    vain = ("not reproduced", "not possible")
    replay = next((one for one in reversed(case.replays) if one.status in vain and abs(one.step - step) <= 1), None)
    if replay is None:
        return finding
    fix = finding.fix
    if fix == (_RUN_AGAIN,):
        fix = (f"run with --steps {step}: that step is then watched operator by operator while it runs",)
    if replay.status == "not reproduced":
        fix = (*fix, "look for what differs between two runs of one step: hardware, threads that race, memory not set")
    facts = (*finding.evidence, Evidence(f"running the step again: {replay.status}", replay.reason))
    return msgspec.structs.replace(finding, replay=replay.status, evidence=facts, fix=fix)


def _became(replay: Replay) -> str:
    """
    >>> _became(Replay(1, "exact", facts={"bad": 2, "bad_nan": 0, "bad_neg_inf": 2}))
    '-inf'
    """
    counts = [replay.facts.get(name) for name in ("bad", "bad_nan", "bad_neg_inf")]
    bad, nan, below = (count if isinstance(count, (int, float)) else 0 for count in counts)
    return bad_kind(nan, bad - nan, below)


def _bad_values(replay: Replay) -> list[tuple[str, float | int | str | None]]:
    """How many values and rows of the operator's result were bad, in words.

    >>> _bad_values(Replay(1, "exact", facts={"bad_rows": 9, "bad_rows_of": 16, "bad_row_list": "1,3,4"}))
    [('rows of it with a bad value', '9 of 16'), ('those rows', '1, 3, 4, …')]
    """
    facts = replay.facts
    found: list[tuple[str, float | int | str | None]] = []
    for key, what in (("bad", "bad values of its result"), ("bad_rows", "rows of it with a bad value")):
        if facts.get(key) is not None and facts.get(f"{key}_of") is not None:
            found.append((what, f"{facts[key]} of {facts[key + '_of']}"))
    if facts.get("bad_row_list") not in (None, ""):
        listed = str(facts["bad_row_list"]).split(",")
        more = isinstance(rows := facts.get("bad_rows"), int) and rows > len(listed)
        found.append(("those rows", ", ".join([*listed, "…"] if more else listed)))
    return found + beside_values(replay)


def _rows_hit(replay: Replay) -> str:
    """How many rows are bad, and which samples of the data set they are, where that is known."""
    rows, of = replay.facts.get("bad_rows"), replay.facts.get("bad_rows_of")
    if not isinstance(rows, int) or not isinstance(of, int) or of < 2:
        return ""
    numbers = [one for one in str(replay.facts.get("samples") or "").split(",") if one]
    which = ""
    if 0 < len(numbers) <= _MOST_SAMPLES and len(numbers) == rows:
        which = f": sample{'' if rows == 1 else 's'} {', '.join(numbers)} of the data set"
    rows_of = "rows of the batch" if which else "rows"
    return f" ({rows} of {of} {rows_of} {'is' if rows == 1 else 'are'} hit{which})"


def beside_values(replay: Replay) -> list[tuple[str, float | int | str | None]]:
    """Which samples of the data set and which summand of the loss the bad values belong to, where that is known."""
    found: list[tuple[str, float | int | str | None]] = []
    if replay.facts.get("samples"):
        found.append(("samples of the data set", str(replay.facts["samples"]).replace(",", ", ")))
    if replay.facts.get("summand"):
        found.append(("the loss is a sum", str(replay.facts["summand"])))
    return found


def tried(replay: Replay | None) -> list[Fact]:
    """What experiments in the copy that ran the step again have shown."""
    if replay is None:
        return []
    return [(name, value) for name, value in replay.facts.items() if name.startswith("tried ")]


def _dropped(bad: BadStep) -> bool:
    """Whether gradients went bad in a step whose loss was read and is finite."""
    loss = bad.kept.record.loss
    return bad.gradient and not bad.loss and loss is not None and math.isfinite(loss)


def given_outside(case: Case, replay: Replay) -> bool:
    """Whether the first operator was given bad values that no weight or buffer held: the data had them.

    Without a network nobody knows which tensors are weights, and a step begins in the midst of an iteration.
    """
    return replay.facts.get("kind") == "given" and not replay.facts.get("name") and bool(case.networks)


class NonFinite(Rule):
    """The first value that stopped being finite, and the operator or module that made it."""

    fault = "nonfinite_value"
    category = "numeric-nonfinite"
    finds = "The first NaN or Inf of a run: which operator, module, loss or update made it out of finite values."
    evidence = (
        "statistics of inputs, module outputs, loss, gradients and weights, in order of execution",
        "the bad step run again: the first operator with finite inputs and a bad result, and its inputs",
    )
    also = NAMES
    explains = NONFINITE | {"exploding_gradient", "loss_scale_keeps_falling"}
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        bad = case.trouble.first
        if bad is None:
            return self._left_out(case)
        if fed_bad(case, bad):
            return []
        replay = replay_of(case, bad.step)
        if replay is not None:
            if given_outside(case, replay):
                return []  # it came from outside the network: the data rule says so
            found = (
                None if replay.facts.get("kind") == "given" and not case.networks else self._replayed(case, bad, replay)
            )
            if found is not None:
                return [found]
        return [_with_fruitless(self._by_stage(case, bad), case, bad.step)]

    def _left_out(self, case: Case) -> list[Finding]:
        """A scaler keeps bad gradients from the weights; what makes them is known only by running a step again."""
        bad = case.trouble.left_out
        replay = replay_of(case, bad.step) if bad is not None else None
        if bad is None or replay is None or given_outside(case, replay):
            return []
        found = self._replayed(case, bad, replay)
        if found is None:
            return []
        skipped = sum(calls.skipped for calls in case.order.optimizers.values())
        scale = case.scalars.get("scale")
        now = f" to {number(scale.last)}" if scale is not None else ""
        why = (
            f"{found.why}. The scaler takes it for an overflow by its scale and leaves the update out,"
            f" {plural(skipped, 'time')} so far: the loss scale keeps falling{now} and nothing is learnt"
        )
        return [msgspec.structs.replace(found, why=why)]

    # with the operator known

    def _replayed(self, case: Case, bad: BadStep, replay: Replay) -> Finding | None:
        from tensight.diagnosis.reasons import explain, operator_name  # large, and a healthy training needs none of it

        why = explain(replay) or self._unexplained(replay)
        facts: list[Fact] = [(f"input {index} of the operator", text) for index, text in enumerate(replay.inputs)]
        facts += _bad_values(replay)
        facts += tried(replay)
        backward = replay.phase == "backward"
        name = operator_name(replay)
        since = f"{'backward' if backward else 'update' if replay.phase == 'update' else 'forward'} pass"
        source = replay.source or _line_of_loss(case, replay, name)
        if backward and not bad.loss:
            since += "; forward values were all finite"
        beside = ""
        fix = why.fix
        if not backward and replay.phase == "forward" and _dropped(bad):
            beside = (
                ". The loss is finite all the same: what comes after (torch.where, a mask) drops the value. Its"
                " gradient is not dropped: backward multiplies the 0 that comes back by an infinite slope, and"
                " 0 × inf is NaN"
            )
            fix = (*fix, f"choose before {name}, not after it: a torch.where around its input, or only the valid rows")
        return self.finding(
            f"{why.title}: {'gradient' if backward else 'value'} became {_became(replay)}",
            fault=why.fault,
            category=why.category,
            confidence=why.confidence if replay.status == "exact" else why.confidence - 0.05,
            since_step=min(replay.step, bad.began),
            where=where(source, module=replay.module, op=f"{namespace(replay)}.{name}", network=self._network(bad)),
            why=why.why + _rows_hit(replay) + beside,
            facts=facts,
            fix=fix,
            since=since,
            then=replay.then,
            replay=replay.status,
            confirm=(f"print the smallest and largest input of {name} in step {replay.step}{at(source)}",),
        )

    @staticmethod
    def _unexplained(replay: Replay) -> Reason:
        from tensight.diagnosis.reasons import Reason, operator_name

        name = operator_name(replay)
        given = "; ".join(replay.inputs) or "finite values"
        return Reason(
            "nonfinite_value",
            "numeric-nonfinite",
            f"{name} gives a value that is not finite",
            f"{name} turned finite values into NaN or inf; it was given {given}",
            (f"look at the arguments of {name} in this line and keep them inside its range",),
            0.8,
        )

    # with modules and tensors only

    def _by_stage(self, case: Case, bad: BadStep) -> Finding:
        network = self._network(bad)
        forward = bad.of_kind("output", "activation", "prediction")
        old = [pair for pair in bad.of_kind("weight", "frozen") if pair[0].phase == "forward"]
        if old and (not forward or old[0][0].order < forward[0][0].order):
            return self._weights_before(case, bad, old[0][1], old[0][0])
        if forward:
            return self._in_forward(case, bad, *forward[0])
        if bad.loss:
            return self._in_loss(case, bad, network)
        if bad.gradient:
            return self._in_backward(case, bad, network)
        return self._in_update(case, bad, network)

    @staticmethod
    def _network(bad: BadStep) -> str | None:
        return next((info.network for _, info in bad.bad if info.network), None)

    def _say(
        self,
        bad: BadStep,
        title: str,
        why: str,
        place: Where,
        *,
        since: str,
        source: Source | None,
        facts: list[Fact],
        backward: bool = False,
        confidence: float = 0.6,
        category: str = "",
        fault: str = "",
        fix: tuple[str, ...] = (),
    ) -> Finding:
        """The finding of a stage; a risky function in the guilty line makes it more than a place."""
        if not fault and source is not None and source.code:
            for pattern, risk, name, words in _RISKS:
                if re.search(pattern, source.code) and (risk != "sqrt_zero_gradient" or backward):
                    fault, why = risk, f"{why}; the line uses {name}, and {words}"
                    place = where(source, module=place.module, op=name, network=place.network)
                    fix = fix or (f"{source.file}:{source.line}  keep the argument of {name} inside its range",)
                    break
        return self.finding(
            title,
            fault=fault,
            category=category,
            confidence=confidence,
            since_step=bad.step,
            where=place,
            why=why,
            facts=facts,
            fix=fix or (_RUN_AGAIN,),
            since=since,
            then=self._then(bad),
        )

    @staticmethod
    def _then(bad: BadStep) -> list[str]:
        gradients, weights = bad.of_kind("gradient"), bad.of_kind("weight")
        then = []
        if gradients:
            then.append(plural(len(gradients), "gradient"))
        if weights:
            then.append(plural(len(weights), "weight"))
        return then

    def _in_forward(self, case: Case, bad: BadStep, one: Observation, info: TensorInfo) -> Finding:
        source = info.source or case.source_of(info.network, info.node)
        before = case.trouble.before.last(one.tensor) if case.trouble.before is not None else None
        facts: list[Fact] = [(f"output of {called(info.name)}", bad_values(one.stats))]
        if before is not None and before.max is not None and before.min is not None:
            facts.append((f"largest value of {called(info.name)} before", max(abs(before.min), abs(before.max))))
        name = info.op or info.type
        half = info.dtype == "float16" and one.stats.pos_inf + one.stats.neg_inf > 0
        why = f"{called(info.name)} ({name}) returned {bad_values(one.stats)} in the forward pass"
        if half:
            why += "; it works in half precision (float16), where everything above 65504 overflows to inf"
        else:
            why += "; everything that was seen before it in this step was finite"
        return self._say(
            bad,
            f"{called(info.name)} gives {bad_kind(one.stats.nan, one.stats.inf, one.stats.neg_inf)}",
            why,
            where(source, module=info.node, op=name, network=info.network),
            since="forward pass",
            source=source,
            facts=facts,
            fault="fp16_overflow" if half else "",
            category="precision" if half else "",
            fix=("do this part in float32 or bfloat16, or scale its values down",) if half else (),
            confidence=0.85 if half else 0.6,
        )

    def _in_loss(self, case: Case, bad: BadStep, network: str | None) -> Finding:
        site = case.losses.main()
        source = site.source if site is not None else None
        name = site.function if site is not None else "the loss"
        seen = bool(bad.kept.forward())
        return self._say(
            bad,
            "the loss is not finite while all module outputs are" if seen else "the loss is not finite",
            f"all outputs of the network were finite in step {bad.step}, the loss was not: {name} made it{at(source)}"
            if seen
            else f"the loss of step {bad.step} was not finite{at(source)}; module outputs were not read in it, so the"
            " network or the loss itself may have made it",
            where(source, op=name if site is not None else None, network=network),
            since="in the loss",
            source=source,
            facts=[("loss", str(bad.kept.record.loss))],
        )

    def _in_backward(self, case: Case, bad: BadStep, network: str | None) -> Finding:
        through = bad.of_kind("output_gradient", "gradient")
        one, info = through[0]
        source = info.source
        site = case.losses.main()
        if info.kind == "gradient" or source is None:
            source = site.source if site is not None else None
        what = (
            f"the gradient of {called(info.name)}"
            if info.kind == "gradient"
            else f"the gradient that reaches {called(info.name)}"
        )
        return self._say(
            bad,
            "gradients are not finite while the loss is",
            f"the loss of step {bad.step} was finite ({bad.kept.record.loss}), but in the backward pass {what} held"
            f" {bad_values(one.stats)}: an operator between it and the loss has an infinite slope",
            where(
                source,
                module=info.node,
                parameter=info.name if info.kind == "gradient" else None,
                network=info.network,
            ),
            since="backward pass; forward values were all finite",
            source=source,
            facts=[(what, bad_values(one.stats))],
            backward=True,
        )

    def _weights_before(self, case: Case, bad: BadStep, info: TensorInfo, one: Observation) -> Finding:
        start = bad.step == 0
        return self._say(
            bad,
            f"{info.name} is not finite before {'the first' if start else 'this'} step",
            f"the weight {info.name} held {bad_values(one.stats)} before anything was computed"
            + (
                "; memory that was never initialised (torch.empty) or a bad checkpoint looks like this" if start else ""
            ),
            where(case.source_of(info.network, info.node), module=info.node, parameter=info.name, network=info.network),
            since=f"bad when step {bad.step} began",
            source=None,
            facts=[(info.name, bad_values(one.stats))],
            fault="nonfinite_initial_weights" if start else "",
            category="initialisation" if start else "",
            fix=("initialise the weight (nn.init) or check the checkpoint it was loaded from",),
            confidence=0.9 if start else 0.5,
        )

    def _in_update(self, case: Case, bad: BadStep, network: str | None) -> Finding:
        weights = bad.of_kind("weight", "frozen")
        info = weights[0][1] if weights else None
        part = case.optimizer_of(network or "") or case.main_optimizer()
        calls = case.order.optimizers.get(part.name) if part is not None else None
        source = calls.step_source if calls is not None else None
        return self._say(
            bad,
            "the update made weights that are not finite",
            f"gradients of step {bad.step} were finite, the weights after the update are not: the optimizer itself made"
            " them (an eps of 0, a learning rate that is not finite, or an overflow of its state)",
            where(
                source,
                module=info.node if info else None,
                parameter=info.name if info else None,
                op=f"{part.type}.step" if part is not None else None,
                network=network,
            ),
            since="in the update",
            source=None,
            facts=[(info.name, bad_values(weights[0][0].stats))] if info else [],
            fix=("look at lr, eps and betas of the optimizer",),
        )
