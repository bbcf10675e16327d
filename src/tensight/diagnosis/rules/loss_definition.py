"""The loss does not measure what the user meant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import BINARY_LOSSES, CLASS_LOSSES, REGRESSION_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, called, number, where
from tensight.records import Finding, Source, TensorInfo

NOT_LEARNING = frozenset(
    {
        "lr_too_low",
        "vanishing_gradient",
        "labels_shuffled_against_inputs",
        "dead_relu",
        "lr_too_high",
        "exploding_gradient",
    }
)
LIKELIHOODS = frozenset({"nll_loss", "ctc_loss"})  # that are given log-probabilities
CALLS = 2  # how often a call must look like this
LOOKS = 12  # and where its range is all that is known
NEAR_ZERO, HALF = 0.02, 0.5  # of probabilities that were learnt from


def maker(case: Case, *kinds: str) -> TensorInfo | None:
    """The last activation of such a kind in the forward pass: what made the prediction."""
    for kept in case.beginning[:1] + case.latest(1):
        for _, info in reversed(kept.forward()):
            if info.type.lower().replace("_", "").replace("2d", "") in kinds:
                return info
    return None


def place_of(case: Case, info: TensorInfo | None, site: LossSite) -> tuple[Source | None, str | None, str | None]:
    """Line, module and network of what made the prediction, or the line of the loss."""
    if info is None:
        return site.maker or site.source, None, None
    source = info.source or (case.source_of(info.network, info.node) if info.node else None)
    return source or site.source, info.node, info.network


class SoftmaxBeforeCrossEntropy(Rule):
    """Probabilities given to a loss that applies softmax itself."""

    fault = "softmax_before_cross_entropy"
    category = "loss-definition"
    finds = "Probabilities (softmax outputs) given to cross_entropy, which expects logits and applies softmax again."
    evidence = ("range and row sums of the prediction", "the operator that made it")
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        found = [self._say(case, site) for site in case.losses if self._holds(site)]
        return found or [self._say_by_hand(case, *twice) for site in case.losses if (twice := self._twice(site))]

    @staticmethod
    def _holds(site: LossSite) -> bool:
        if site.function != "cross_entropy" or not (site.traced or site.calls >= CALLS) or site.classes < 2:
            return False
        if site.prediction_min < -1e-6 or site.prediction_max > 1 + 1e-3:
            return False
        sums = math.isfinite(site.row_sum_min) and abs(site.row_sum_min - 1) < 0.01 and abs(site.row_sum_max - 1) < 0.01
        return sums or site.made_by == "softmax"

    @staticmethod
    def _twice(site: LossSite) -> tuple[LossSite, int] | None:
        """The number of choices, where a loss written by hand takes probabilities for logits."""
        choices = site.latest.get("normalised_twice")
        seen = site.calls >= CALLS and site.first.get("normalised_twice") == choices
        return (site, choices) if seen and isinstance(choices, int) and choices > 1 else None

    def _say_by_hand(self, case: Case, site: LossSite, choices: int) -> Finding:
        source, module, network = place_of(case, maker(case, "softmax"), site)
        return self.finding(
            "softmax is applied twice: probabilities are taken for logits",
            confidence=0.93,
            since_step=site.first_step,
            where=where(source, module=module, op="softmax", network=network),
            why=f"what softmax gave is normalised again as if it were logits{at(site.source)} (log_softmax, or"
            f" Categorical(logits=…)): logits between 0 and 1 cannot make one of {choices} choices more likely than"
            f" {number(math.e / (math.e + choices - 1))}, and gradients are small",
            facts=[("choices", choices), ("loss now", case.loss.last)],
            fix=("return the logits: leave out the softmax, or pass probabilities as such: Categorical(probs=…)",),
        )

    def _say(self, case: Case, site: LossSite) -> Finding:
        source, module, network = place_of(case, maker(case, "softmax"), site)
        floor = math.log(math.e + site.classes - 1) - 1
        return self.finding(
            "softmax is applied twice: cross_entropy gets probabilities instead of logits",
            confidence=0.96,
            since_step=site.first_step,
            where=where(source, module=module, op="softmax", network=network),
            why=f"the prediction given to cross_entropy{at(site.source)} lies between {number(site.prediction_min)} and"
            f" {number(site.prediction_max)} and each row sums to 1: it went through softmax already."
            f" cross_entropy expects"
            f" logits and applies softmax a second time, so the loss cannot fall below {number(floor)} with"
            f" {site.classes} classes and gradients are small",
            facts=[
                ("smallest prediction", site.prediction_min),
                ("largest prediction", site.prediction_max),
                ("row sums, smallest", site.row_sum_min if math.isfinite(site.row_sum_min) else None),
                ("lowest loss possible", floor),
                ("loss now", case.loss.last),
            ],
            fix=("return the logits: leave out the softmax before the loss, and apply it only for output",),
            confirm=(f"the loss stays above {number(floor)} even on one batch",),
        )


class SoftmaxOverBatchDim(Rule):
    """Softmax that normalises over the samples instead of the classes."""

    fault = "softmax_over_batch_dim"
    category = "loss-definition"
    finds = "A softmax or log_softmax over the batch dimension, so samples share the probability instead of classes."
    evidence = (
        "largest and smallest (log-)probability against the number of classes",
        "row sums",
        "dim of the operator",
    )
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for site in case.losses:
            proof = self._proof(site)
            if proof:
                findings.append(self._say(case, site, proof))
            elif isinstance(site.first.get("picked_dim"), int) and site.calls >= CALLS:
                findings.append(self._say_picked(site))
        return findings or self._inside(case)

    def _inside(self, case: Case) -> list[Finding]:
        """A softmax inside the network over its first dimension, which is as long as there are targets."""
        known = CLASS_LOSSES | BINARY_LOSSES | REGRESSION_LOSSES
        batches = {site.batch for site in case.losses if site.function in known}
        told = case.noted.of("over_rows")
        if told and self._learns_little(case):  # targets may be one for each place of a sample, in a row
            batches |= {
                size for size in case.fed_lengths(told[0][1].part) if size > 1 and any(n % size == 0 for n in batches)
            }
        seen = [(step, event) for step, event in told if event.values.get("size") in batches]
        if len({step for step, _ in seen}) < CALLS or 2 * len(seen) < len(told):
            return []
        step, event = seen[0]
        kind, size, sizes = (event.values.get(name) for name in ("function", "size", "shape"))
        module = str(event.values.get("module") or "")
        return [
            self.finding(
                f"{kind} in {called(module)} runs over the batch",
                confidence=0.86,
                since_step=step,
                where=where(event.source, module=module, op=str(kind), network=event.part),
                why=f"{kind} in {called(module)} normalises a {sizes} tensor over dim 0, which holds the {size} samples"
                " of the batch: the samples share one weight of 1 among them, so what the network answers for one of"
                " them depends on which others are in the batch (softmax over the wrong axis)",
                facts=[("shape", sizes), ("samples in a batch", size)],
                fix=("normalise over the places or choices of each sample: dim=-1",),
                confirm=("evaluate one sample alone and in a batch: the answers differ",),
            )
        ]

    @staticmethod
    def _learns_little(case: Case) -> bool:
        trend, chance = case.loss.trend(), case.chance_loss()
        return trend is not None and chance is not None and case.updates >= 50 and trend.end > 0.3 * chance

    def _say_picked(self, site: LossSite) -> Finding:
        """A loss written by hand: normalised over one axis, and read along another."""
        kind, over, along = (site.first.get(name) for name in ("normalised_by", "normalised_dim", "picked_dim"))
        batch = "the batch, " if over == 0 else ""
        return self.finding(
            f"{kind} runs over the wrong dimension" + (", the batch" if over == 0 else ""),
            confidence=0.94,
            since_step=site.first_step,
            where=where(site.source, op=str(kind)),
            why=f"{kind} normalises over dim {over} ({batch}of what it is given), and the loss then picks the"
            f" probability of the right class along dim {along}: the classes of a sample do not compete with each"
            " other, other samples or places do (softmax over the wrong axis)",
            facts=[("normalised over dim", over), ("classes are picked along dim", along)],
            fix=(f"normalise over the classes: dim={along}",),
            confirm=(f"print probabilities.sum({along}): it must give 1 everywhere",),
        )

    @staticmethod
    def _proof(site: LossSite) -> str:
        """What cannot be if each row were normalised over its classes; '' when nothing speaks against it."""
        logs, kind = site.made_by == "log_softmax", site.made_by
        if kind not in ("softmax", "log_softmax") or site.function not in CLASS_LOSSES or site.calls < 1:
            return ""
        low, high = site.number("prediction_exp_sum_min"), site.number("prediction_exp_sum_max")
        if logs and low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            apart = low < 0.98 or high > 1.02
            return f"its rows, as probabilities, sum to between {number(low)} and {number(high)}, not to 1" * apart
        dim = site.first.get("prediction_dim")
        sizes = site.shape_of("prediction_shape")
        if isinstance(dim, int) and not isinstance(dim, bool) and sizes and len(sizes) >= 2:
            return f"it runs over dim {dim}, the classes are in dim 1" if dim % len(sizes) == 0 else ""
        classes = site.classes
        if classes < 2:
            return ""
        if not logs and math.isfinite(site.row_sum_min) and (site.row_sum_min < 0.98 or site.row_sum_max > 1.02):
            return f"rows sum to between {number(site.row_sum_min)} and {number(site.row_sum_max)}, not to 1"
        bound = -math.log(classes) if logs else 1 / classes
        high, low = site.number("prediction_max"), site.number("prediction_min")
        if high is not None and high < bound - 0.02 * abs(bound):
            return (
                f"no value is above {number(high)}, but normalised over {classes} classes the largest of a row"
                f" is at least"
                f" {number(bound)}"
            )
        if low is not None and low > bound + 0.02 * abs(bound):
            return (
                f"no value is below {number(low)}, but normalised over {classes} classes the smallest of a row"
                f" is at most"
                f" {number(bound)}"
            )
        return ""

    @staticmethod
    def _other_dim(site: LossSite) -> bool:
        """Whether it ran over a dimension that is neither that of the batch nor that of the classes."""
        dim = site.first.get("prediction_dim")
        return isinstance(dim, int) and dim not in (0, -1)

    def _say(self, case: Case, site: LossSite, proof: str) -> Finding:
        info = maker(case, "logsoftmax", "softmax")
        source, module, network = place_of(case, info, site)
        made = site.first.get("prediction_source")
        kind = site.made_by
        return self.finding(
            f"{kind} runs over the wrong dimension" + ("" if self._other_dim(site) else ", the batch"),
            confidence=0.93,
            since_step=site.first_step,
            where=where(source, module=module, op=kind, network=network),
            why=f"{kind} normalises over the wrong dim: {proof}. So "
            + (
                "positions of a sequence compete with each other"
                if self._other_dim(site)
                else f"the {site.batch} samples of a batch compete with each other (softmax over the batch axis)"
            )
            + " instead of the classes of a sample",
            facts=[
                ("largest prediction", site.prediction_max),
                ("smallest prediction", site.prediction_min),
                ("classes", site.classes),
                ("batch", site.batch),
                ("made in", str(made) if made else None),
            ],
            fix=("normalise over the classes: dim=1 (or dim=-1 when classes are last)",),
            confirm=("print prediction.exp().sum(1): each row must give 1",),
        )


class NllOnProbabilities(Rule):
    """nll_loss fed with something that is no log-probability."""

    fault = "nll_on_probabilities"
    also = MappingProxyType(
        {
            "nll_on_logits": "nll_loss on scores of the network: a log_softmax is missing.",
            "ctc_on_logits": "ctc_loss on scores of the network: a log_softmax is missing.",
        }
    )
    category = "loss-definition"
    finds = (
        "Probabilities or logits given to nll_loss or ctc_loss, which expect log-probabilities: the loss has no floor."
    )
    evidence = ("range and row sums of the prediction", "sign of the loss")
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for site in case.losses:
            if site.function not in LIKELIHOODS or site.calls < CALLS or not math.isfinite(site.prediction_max):
                continue
            if site.prediction_max <= 1e-4:
                continue  # log-probabilities are never positive
            findings.append(self._say(case, site))
        return findings

    def _say(self, case: Case, site: LossSite) -> Finding:
        probabilities = site.prediction_min >= 0 and site.prediction_max <= 1 + 1e-3
        info = maker(case, "softmax") if probabilities else None
        source, module, network = place_of(case, info, site)
        what = "probabilities (softmax outputs)" if probabilities else "logits"
        name = site.function
        low = min((value for _, value in case.loss.points), default=0.0)
        negative = f" and has been negative ({number(low)})" if low < 0 else ""
        return self.finding(
            f"{name} gets {what} instead of log-probabilities",
            fault="" if probabilities else f"{name.removesuffix('_loss')}_on_logits",
            confidence=0.96,
            since_step=site.first_step,
            where=where(source, module=module, op=name, network=network),
            why=f"{name}{at(site.source)} expects log-probabilities, which are never above 0; it was given"
            f" {what} between"
            f" {number(site.prediction_min)} and {number(site.prediction_max)}. The loss has no floor then{negative}"
            f" ({number(case.loss.last)} now) and its gradient has nothing to do with the likelihood",
            facts=[
                ("smallest prediction", site.prediction_min),
                ("largest prediction", site.prediction_max),
                ("loss now", case.loss.last),
            ],
            fix=(
                "use log_softmax(x, dim=1) before nll_loss, or give the logits to cross_entropy"
                if name == "nll_loss"
                else f"normalise over the classes before {name}: log_softmax(x, dim=-1)",
            ),
        )


class SigmoidBeforeBceWithLogits(Rule):
    """Sigmoid outputs given to a loss that applies sigmoid itself."""

    fault = "sigmoid_before_bce_with_logits"
    category = "loss-definition"
    finds = "Sigmoid outputs given to binary_cross_entropy_with_logits, which applies sigmoid again."
    evidence = ("range of the prediction", "the operator that made it")
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for site in case.losses:
            if site.function != "binary_cross_entropy_with_logits" or not (site.traced or site.calls >= CALLS):
                continue
            if site.prediction_min < 0 or site.prediction_max > 1:
                continue
            unknown = not site.made_by and (self._is_last_output(case, site) or self._never_crosses(site))
            if site.made_by == "sigmoid" or unknown:
                findings.append(self._say(case, site))
        return findings

    @staticmethod
    def _never_crosses(site: LossSite) -> bool:
        """Values that go as near to 0 as they like and never below, nor above 1: of a compiled model no more is seen.

        Logits that are pushed down this far go on.
        """
        return site.calls >= LOOKS and 0 < site.prediction_min < NEAR_ZERO and site.prediction_max > HALF

    @staticmethod
    def _is_last_output(case: Case, site: LossSite) -> bool:
        """A sigmoid output with exactly the range of the prediction."""
        info = maker(case, "sigmoid")
        if info is None:
            return False
        stats = case.beginning[0].last(info.id) if case.beginning else None
        return (
            stats is not None
            and stats.max == site.first.get("prediction_max")
            and stats.min == site.first.get("prediction_min")
        )

    def _say(self, case: Case, site: LossSite) -> Finding:
        source, module, network = place_of(case, maker(case, "sigmoid"), site)
        return self.finding(
            "sigmoid is applied twice: binary_cross_entropy_with_logits gets probabilities",
            confidence=0.94,
            since_step=site.first_step,
            where=where(source, module=module, op="sigmoid", network=network),
            why=f"the prediction given to binary_cross_entropy_with_logits{at(site.source)} lies between"
            f" {number(site.prediction_min)} and {number(site.prediction_max)}: it went through sigmoid already,"
            f" and the loss"
            " applies sigmoid a second time, so it expects logits, can never see a confident answer and keeps a"
            " floor of"
            f" {number(math.log(1 + math.exp(-1)))} (log(1 + 1/e)) for positives",
            facts=[("smallest prediction", site.prediction_min), ("largest prediction", site.prediction_max)],
            fix=("return the logits: leave out the sigmoid, or use binary_cross_entropy on the probabilities",),
        )


# What robust losses (log-cosh, Huber, Cauchy, quantiles, a tolerance) do to each error by itself.
MEASURES = frozenset(
    {"add", "cosh", "log", "log1_p", "where", "clamp", "maximum", "minimum", "relu", "leaky_relu", "neg", "tanh"}
)


class BroadcastInLoss(Rule):
    """Prediction and target of different shapes that broadcast to a matrix."""

    fault = "broadcast_in_loss"
    category = "loss-definition"
    finds = (
        "Prediction and target whose shapes differ by a dimension of 1, so the loss compares every sample"
        " with every other."
    )
    evidence = ("shapes of prediction, target and their difference",)
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for site in case.losses:
            prediction, target = site.shape_of("prediction_shape"), site.shape_of("target_shape")
            compares = site.function in REGRESSION_LOSSES | BINARY_LOSSES or self._plain_distance(site)
            if prediction and target and compares:
                grown = self._grown(prediction, target)
                if grown is not None:
                    findings.append(self._say(site, prediction, target, grown))
        return findings

    @staticmethod
    def _plain_distance(site: LossSite) -> bool:
        """A mean of squares or magnitudes, or of another measure of an error where the target is given.

        Anything more may compare all pairs on purpose: ranks of predictions, contrasts, kernels (exp), the nearest one.
        """
        operators = site.first.get("operators")
        if site.function != "expression":
            return False
        if site.first.get("product") is True:
            return True  # only what is done to each value alone stands between such a product and the loss
        names = [name.strip() for name in operators.split(",")] if isinstance(operators, str) else []
        difference = next((at for at, name in enumerate(names) if name in ("sub", "rsub")), len(names))
        # Nearest to the loss first: what stands before the difference is done to it. Another term may be added to a
        # distance from something given; predictions that are compared with each other may all be on purpose.
        usual = {"mean", "sum", "pow", "abs", "square", "mul", "div", "sqrt", "view", "squeeze"}
        measured = MEASURES if site.first.get("target_given") is True else frozenset()
        return set(names[:difference]) <= usual | measured

    @staticmethod
    def _grown(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape both broadcast to, if it is larger than each although they hold the same."""
        if len(a) == len(b) or [n for n in a if n != 1] != [n for n in b if n != 1]:
            return None
        rank = max(len(a), len(b))
        wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        if any(x != y and 1 not in (x, y) for x, y in zip(wide_a, wide_b)):
            return None
        result = tuple(max(x, y) for x, y in zip(wide_a, wide_b))
        return result if math.prod(result) > max(math.prod(a), math.prod(b)) else None

    def _say(
        self, site: LossSite, prediction: tuple[int, ...], target: tuple[int, ...], grown: tuple[int, ...]
    ) -> Finding:
        matrix = "x".join(map(str, grown))
        calculated = "mul" if site.first.get("product") is True else "sub"
        return self.finding(
            f"prediction and target broadcast to {matrix} in the loss",
            confidence=0.95,
            since_step=site.first_step,
            where=where(site.source, op=calculated if site.function == "expression" else site.function),
            why=f"the prediction has shape {list(prediction)} and the target {list(target)}: their"
            f" {'product' if calculated == 'mul' else 'difference'}"
            f" broadcasts to a"
            f" {matrix} matrix, so every prediction is compared with every target of the batch and the network"
            f" learns the"
            " mean of the targets",
            facts=[
                ("shape of the prediction", str(prediction)),
                ("shape of the target", str(target)),
                ("compared as", matrix),
            ],
            fix=("give both the same shape: prediction.squeeze(1), or target.unsqueeze(1)",),
            confirm=(f"print (prediction {'*' if calculated == 'mul' else '-'} target).shape",),
        )


class SumInsteadOfMean(Rule):
    """A summed loss whose gradients grow with the batch, and a training that diverges from it."""

    fault = "sum_instead_of_mean"
    category = "loss-definition"
    finds = "A loss summed over the batch instead of averaged, with updates that are too large because of it."
    evidence = ("reduction of the loss", "size of updates against weights", "course of the loss")
    explains = frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu"}) | NONFINITE
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        site = case.losses.main()
        if site is None or site.first.get("reduction") != "sum":
            return []
        killed = "dead_relu" in case.findings_of and self._overturned(case)
        if not killed and "lr_too_high" not in case.findings_of:
            return []
        shape = site.shape_of("prediction_shape") or ()
        terms = math.prod(shape) if site.function not in CLASS_LOSSES else (site.batch or 0)
        if terms < 8:
            return []
        function = "sum" if site.function == "expression" else site.function
        return [
            self.finding(
                "the loss is a sum over the batch, not a mean",
                confidence=0.85,
                since_step=site.first_step,
                where=where(site.source, op=function),
                why=f"{function} adds up {terms} terms (reduction='sum'): gradients are {terms} times those"
                f" of a mean, and"
                " with this learning rate the updates are so large that"
                f" {'the layers die of them' if killed else 'training diverges'}",
                facts=[("terms in the sum", terms), ("first loss", case.loss.first)],
                fix=("use reduction='mean', or divide the loss by the number of terms",),
            )
        ]

    @staticmethod
    def _overturned(case: Case) -> bool:
        """Whether a first update changed a layer by as much as the layer itself."""
        return any(ratio > 0.5 for kept in case.beginning for _, ratio in kept.update_ratios(case.ledger))
