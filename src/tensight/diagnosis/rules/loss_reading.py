"""Losses that read what they are given in another way than it is meant."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import BINARY_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.loss_definition import NOT_LEARNING
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, number, where
from tensight.records import Finding

CALLS = 3  # how often a call must look like this
SLACK = 0.01  # of targets that were computed
ZEROS = 0.05  # share of targets that are 0


class TargetsOutOfRange(Rule):
    """Targets of a yes-or-no loss that are no probabilities."""

    fault = "target_out_of_range"
    category = "loss-definition"
    finds = "Targets above 1 or below 0 for binary cross-entropy: the loss has no floor and falls for ever."
    evidence = ("smallest and largest target of binary cross-entropy",)
    explains = NOT_LEARNING | NONFINITE | {"loss_unbounded_below", "loss_sign_flipped", "exploding_activation"}
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            low, high = site.number("target_min"), site.number("target_max")
            if site.function not in BINARY_LOSSES or site.calls < CALLS or low is None or high is None:
                continue
            if low >= -SLACK and high <= 1 + SLACK:
                continue
            yield self.finding(
                f"the targets of {site.function} are outside the range 0 to 1",
                confidence=0.95,
                since_step=site.first_step,
                where=where(site.source, op=site.function),
                why=f"the targets given to {site.function}{at(site.source)} go from {number(low)} to {number(high)}; it"
                " expects probabilities between 0 and 1. Beyond that range it has no minimum: the further the"
                " prediction runs, the lower (negative) the loss. Masks of bytes are 0 and 255, labels may count"
                " classes, or be -1 and 1",
                facts=[("smallest target", low), ("largest target", high), ("loss now", case.loss.last)],
                fix=("scale the targets: mask.float() / 255, (label > 0).float(); or use cross_entropy for classes",),
                confirm=("print(target.min(), target.max())",),
            )


class SignedTargets(Rule):
    """0 and 1 given to a loss that wants -1 and 1."""

    fault = "labels_zero_one_for_signed_loss"
    category = "loss-definition"
    finds = "Targets of 0 and 1 for a loss that is defined for -1 and 1: what is marked with 0 takes no proper part."
    evidence = ("targets of losses that want -1 and 1",)
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        return [self._say(site) for site in case.losses if self._holds(site)]

    @staticmethod
    def _holds(site: LossSite) -> bool:
        zeros = [one.get("target_zeros") for one in (site.first, site.latest)]
        if site.calls < CALLS or not all(isinstance(share, float) and share >= ZEROS for share in zeros):
            return False
        return all(one.get("target_min") == 0 and one.get("target_max") in (0, 1) for one in (site.first, site.latest))

    def _say(self, site: LossSite) -> Finding:
        name, share = site.function, site.number("target_zeros") or 0.0
        without = {
            "cosine_embedding_loss": "a pair with the target 0 counts as neither alike nor different and adds nothing,"
            " so pairs that differ are ignored and everything may collapse to one point",
            "margin_ranking_loss": "with the target 0 the order of a pair does not matter: only the margin is added, a"
            " constant without a gradient",
            "soft_margin_loss": "with the target 0 the prediction does not matter: log(2) is added, a constant without"
            " a gradient, so nothing is ever pushed to the other side",
        }.get(name, "a target of 0 counts as neither and is treated as if it were something else")
        return self.finding(
            f"{name} gets targets of 0 and 1 instead of -1 and 1",
            confidence=0.95,
            since_step=site.first_step,
            where=where(site.source, op=name),
            why=f"{name}{at(site.source)} expects the labels 1 and -1; its target holds 0 and 1 only, and"
            f" {share:.0%} of them are 0: {without}",
            facts=[("share of targets that are 0", share), ("smallest target", site.number("target_min"))],
            fix=("turn the labels: target = 2 * label - 1",),
            confirm=("print(target.unique()): it must hold -1 and 1",),
        )


class RowsCutAcross(Rule):
    """Rows of classes that were cut across the axes of the prediction."""

    fault = "view_mixes_axes"
    category = "loss-definition"
    finds = "A prediction that view or reshape gives another order of axes without moving them: classes are mixed."
    evidence = ("shape of the prediction before it was seen as rows", "layout of the targets")
    explains = NOT_LEARNING
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            shape = site.first.get("rows_cut_from")
            if not isinstance(shape, str) or site.latest.get("rows_cut_from") is None or site.calls < CALLS:
                continue
            sizes = shape.replace("x", ", ")
            rest = "places" if shape.count("x") == 2 else "pixels"
            axis, seen_as = site.first.get("class_axis", 1), str(site.first.get("rows_cut_to") or "")
            became = seen_as.replace("x", ", ") if seen_as.count("x") > 1 else f"-1, {site.classes}"
            if axis == 1:
                mixed = (
                    f"each row holds {site.classes} neighbouring {rest} of one class instead of the {site.classes}"
                    " classes of one place"
                )
                fix = "move the class axis to the end first: x.movedim(1, -1).reshape(-1, classes)"
            else:
                mixed = (
                    f"what stands along its class dim are values of several classes and {rest}, not the"
                    f" {site.classes} classes of one place"
                )
                fix = f"transpose instead of reshaping: x.movedim({axis}, 1), or x.transpose(1, 2)"
            yield self.finding(
                "the view before the loss mixes classes and places",
                confidence=0.95,
                since_step=site.first_step,
                where=where(site.source, op="view"),
                why=f"the prediction has shape ({sizes}) with its {site.classes} classes in dim {axis}, and view or"
                f" reshape to ({became}) before {site.function} cuts it across: {mixed}. Predictions"
                " and labels no longer belong together, although shapes fit (a view or reshape does not move or"
                " transpose an axis)",
                facts=[("shape of the prediction", shape), ("classes", site.classes), ("loss now", case.loss.last)],
                fix=(
                    fix,
                    f"or give {site.function} (batch, classes, …) and (batch, …) as they are",
                ),
                confirm=(
                    "compare x.view(-1, classes)[0] with x[0, :, 0]: they differ"
                    if axis == 1
                    else "compare the reshaped tensor with x.transpose(1, 2): they differ",
                ),
            )


class OverlapOfRaw(Rule):
    """Dice or IoU of numbers that are no probabilities."""

    fault = "overlap_of_logits"
    category = "loss-definition"
    finds = "A loss of overlap (Dice, IoU) computed on raw outputs, which no sigmoid or softmax brings to 0 to 1."
    evidence = ("what an overlap with a mask of 0 and 1 is computed of", "values of the loss")
    explains = NOT_LEARNING | NONFINITE | {"loss_unbounded_below"}
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            made = site.first.get("overlap_of")
            if not isinstance(made, str) or site.latest.get("overlap_of") is None or site.calls < CALLS:
                continue
            values = [value for _, value in case.loss.points]
            outside = sum(not 0 <= value <= 1 for value in values)
            low, high = min(values, default=None), max(values, default=None)
            yield self.finding(
                "an overlap is computed of raw outputs, not of probabilities",
                confidence=0.93 if outside else 0.88,
                since_step=site.first_step,
                where=where(site.source, op="div"),
                why="the loss is a ratio of overlap (as Dice or IoU) of the prediction and a mask of 0 and 1, and the"
                f" prediction comes straight from a layer ({made}): no sigmoid or softmax makes probabilities between"
                " 0 and 1 of it. The ratio of such logits has no bounds and jumps where its denominator passes 0"
                f" ({outside} of {len(values)} losses lie outside 0 to 1, the smallest is {number(low)}"
                f" and the largest {number(high)})",
                facts=[("losses outside 0 to 1", outside), ("losses", len(values)), ("loss now", case.loss.last)],
                fix=("apply torch.sigmoid (or softmax over the classes) to the output before the overlap",),
                confirm=("print the smallest and largest value that goes into the loss: they lie in 0 to 1",),
            )
