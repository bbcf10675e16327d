"""Labels that say nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import BINARY_LOSSES, CLASS_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, where
from tensight.records import Finding

SAMPLES = 2_000  # with one label: a rare class would have come up
BATCHES = 5  # whose labels were looked at in detail
LAYERS = frozenset({"addmm", "linear", "convolution"})  # with a bias, which alone can answer


class ConstantLabels(Rule):
    """Every sample has the same label."""

    fault = "constant_labels"
    category = "data"
    finds = "A classification in which every label of every batch is the same class: there is nothing to tell apart."
    evidence = ("classes among the labels of each batch", "what made the prediction", "course of the loss")
    explains = frozenset({"labels_shuffled_against_inputs", "unshuffled_sorted_by_class"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        constant = [site for site in case.losses if self._constant(site)]
        if len(case.losses.sites) == 1 == len(case.order.optimizers):  # else they may be the two sides of a game
            for site in case.losses:
                label = self._binary(site)
                if label is not None:
                    yield self._say(case, site, label, 2)
                    return
        # A line for each class (real and fake, source and target) is how a critic is trained.
        if len({next(iter(site.single)) for site in constant}) == 1:
            yield self._say(case, constant[0], next(iter(constant[0].single)), constant[0].classes)

    @staticmethod
    def _constant(site: LossSite) -> bool:
        """One class all along. Where the prediction compares samples (contrastive losses) that is how it is meant."""
        if site.function not in CLASS_LOSSES or site.labelled < BATCHES or site.classes < 2 or site.batch < 4:
            return False
        alike = site.latest.get("alike")  # all samples so far, not only those of the steps that were looked at
        if not isinstance(alike, int) or alike < SAMPLES:
            return False
        return (
            len(site.single) == 1
            and sum(site.single.values()) == site.labelled
            and site.latest.get("prediction_layer") in LAYERS
        )

    @staticmethod
    def _binary(site: LossSite) -> int | None:
        """The only answer, yes or no, that samples of a whole training have."""
        low, alike = site.number("target_min"), site.latest.get("alike")
        if site.function not in BINARY_LOSSES or low not in (0.0, 1.0) or site.number("target_max") != low:
            return None
        return int(low) if isinstance(alike, int) and alike >= SAMPLES and site.batch >= 4 else None

    def _say(self, case: Case, site: LossSite, label: int, classes: int) -> Finding:
        alike = site.latest.get("alike")
        samples = alike if isinstance(alike, int) else 0
        first, last = case.loss.first, case.loss.last
        return self.finding(
            f"every label is {label}",
            confidence=0.93,
            since_step=site.first_step,
            where=where(site.source, op=site.function),
            why=f"all labels of {plural(samples, 'sample')} so far are the constant {label}, one class of"
            f" {classes}: a constant answer is always right, the loss went from {number(first)} to {number(last)},"
            f" and nothing is learnt from the inputs. A cast that rounds down (scores in [0, 1) as integers are all 0),"
            " a wrong column or a filter makes such targets",
            facts=[
                ("samples with this label, and no other", samples),
                ("classes that the network can answer", classes),
                ("samples per batch", site.batch),
            ],
            fix=("look at how labels are made: compare with a threshold, (score > 0.5).long(), instead of a cast",),
            confirm=("print(y.unique()) over the whole data set",),
        )
