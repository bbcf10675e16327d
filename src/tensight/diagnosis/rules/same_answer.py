"""One answer for all samples of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.loss_definition import NOT_LEARNING
from tensight.diagnosis.words import at, number, where
from tensight.records import Finding

CALLS = 5
STEPS = 20  # between the first look and the last: what starts at zero has parted by then


class AveragedOverBatch(Rule):
    """A reduction over the batch axis in place of another one."""

    fault = "wrong_reduction_axis"
    category = "graph-wiring"
    finds = "A mean or sum over the samples of a batch inside the network: all samples get one and the same answer."
    evidence = ("predictions of all samples of a batch", "operators on the way to them that run over the samples")
    explains = NOT_LEARNING | {"zero_init", "constant_init_symmetry", "representation_collapse", "dead_relu"}
    every = 20

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            if site.calls >= CALLS and site.last_step - site.first_step >= STEPS and self._holds(site):
                yield self._say(case, site, str(site.latest["alike_by"]))

    @staticmethod
    def _holds(site: LossSite) -> bool:
        low, high = site.latest.get("target_min"), site.latest.get("target_max")
        if site.latest.get("target_learnt"):
            return False  # a center that the samples are drawn to: it is one for all
        return low != high and all(isinstance(told.get("alike_by"), str) for told in (site.first, site.latest))

    def _say(self, case: Case, site: LossSite, kind: str) -> Finding:
        return self.finding(
            f"{kind} runs over the samples of the batch: all of them get the same answer",
            confidence=0.9,
            since_step=site.first_step,
            where=where(site.source, op=kind),
            why=f"on the way to the prediction given to {site.function}{at(site.source)} a {kind} runs over dim 0,"
            f" that of the {site.batch} samples, and the prediction is bit by bit the same for all of them,"
            f" in step {site.first_step} as in step {site.last_step}: what belongs to one sample is averaged away with"
            " all others (another axis is meant), and the best that can be learnt is one answer for all"
            f" (loss {number(case.loss.last)})",
            facts=[("samples in a batch", site.batch), ("loss now", case.loss.last)],
            fix=(f"{kind} over the axis of places or features, not of samples: dim=1 or dim=-1 in place of dim=0",),
            confirm=("print((prediction == prediction[:1]).all()): it must be False",),
        )
