"""Weights of classes that do the opposite of what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding

CALLS = 8  # batches whose labels were counted
RATIO = 3.0  # between the most frequent class and the rarest
RARE = 20  # labels of the rarest class, without which its share is a guess
SLOPES = (0.75, 1.3)  # of weights over counts, both as logarithms: 1 is proportional
FIT = 0.97  # correlation of the two
FOR_TWO, SLOPES_FOR_TWO = 5.0, (0.9, 1.12)  # two points are always on a line: how steep it is must say it alone


class ClassWeightsInverted(Rule):
    """Classes weighed by how frequent they are, instead of by how rare."""

    fault = "class_weights_inverted"
    category = "loss-definition"
    finds = "Class weights of a loss that are proportional to how frequent the classes are: rare ones hardly count."
    evidence = ("weights given to the loss", "how often each class was among the labels")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        return [self._say(site) for site in case.losses if site.calls >= CALLS and self._holds(site)]

    @staticmethod
    def _holds(site: LossSite) -> bool:
        told = [site.latest.get(name) for name in ("weight_slope", "weight_fit", "count_ratio")]
        slope, fit, ratio = (one if isinstance(one, float) else 0.0 for one in told)
        classes, rarest = (site.latest.get(name) for name in ("weighed_classes", "rare_count"))
        if not isinstance(classes, int) or not isinstance(rarest, int) or rarest < RARE:
            return False
        (low, high), least = (SLOPES, RATIO) if classes > 2 else (SLOPES_FOR_TWO, FOR_TWO)
        return low <= slope <= high and fit >= FIT and ratio >= least

    def _say(self, site: LossSite) -> Finding:
        rare, common = site.latest.get("rare_class"), site.latest.get("common_class")
        share, weight = (float(str(site.latest.get(f"rare_{name}"))) for name in ("share", "weight"))
        most, heaviest = (float(str(site.latest.get(f"common_{name}"))) for name in ("share", "weight"))
        return self.finding(
            "class weights are inverted: the rarest class weighs the least",
            confidence=0.9,
            since_step=site.first_step,
            where=where(site.source, op=site.function),
            why=f"the weights given to {site.function} are proportional to how frequent the classes are: class"
            f" {common}, {most:.2%} of the labels, has the weight {number(heaviest)}, class {rare}, {share:.2%}, has"
            f" {number(weight)}. Weights make up for an imbalance when they are the inverse; these double it, so an"
            f" error on class {rare} costs {number(heaviest / weight)} times less than on the class that is there"
            " anyway, and answering with that one is nearly always right",
            facts=[
                (f"weight of class {common}", heaviest),
                (f"share of class {common}", most),
                (f"weight of class {rare}", weight),
                (f"share of class {rare}", share),
                ("slope of weights over counts (logarithms)", site.latest.get("weight_slope")),
            ],
            fix=("weigh by the inverse: counts.sum() / (classes * counts); or pos_weight = negatives / positives",),
            confirm=(f"look at the recall of class {rare}",),
        )
