"""Ranks that no longer agree."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis import differing
from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import where
from tensight.records import Evidence, Finding, Where

NEEDED = 2  # steps in a row; one alone may be a warm-up


class DdpWrapperBypassed(Rule):
    """A wrapped model that is called past its wrapper, so gradients are never averaged."""

    fault = "ddp_wrapper_bypassed"
    category = "distributed"
    finds = "The wrapped module is called instead of DistributedDataParallel, so that gradients are never averaged."
    evidence = ("whether the wrapper's own forward ran before each update", "whether gradients were averaged by hand")
    explains = frozenset({"replicas_diverge", "gradients_not_averaged"})

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        since, event, count = case.alone.since, case.alone.event, case.alone.count
        if since is None or event is None or count < NEEDED:
            return
        parameter = str(event.values.get("parameter", ""))
        line = event.source
        yield Finding(
            fault=self.fault,
            category=self.category,
            title=f"{event.part} is bypassed: ranks train alone and diverge",
            confidence=0.95,
            since_step=since,
            where=Where(
                module="module",
                op="forward",
                parameter=parameter or None,
                file=line.file if line else None,
                line=line.line if line else None,
                code=line.code if line else None,
            ),
            why=(
                f"gradients of {event.values.get('parameters')} parameters were used by the optimizer although the"
                f" forward of {event.part} was not called before: it averages (all-reduces) gradients between ranks"
                " only in a backward pass that follows its own forward. Each process now trains its own replica, and"
                " the replicas differ from the first update on"
            ),
            evidence=(
                Evidence("updates without the wrapper's forward", count),
                Evidence("first parameter with a gradient of this rank alone", parameter),
            ),
            fix=("call the wrapper itself, not its .module: ddp(x) instead of ddp.module(x)",),
            confirm=("compare one weight between ranks after a step: they differ",),
        )


class GradientsNotAveraged(Rule):
    """Gradients that an optimizer uses although they differ between ranks."""

    fault = differing.NOT_AVERAGED
    category = "distributed"
    finds = "An optimizer uses gradients that are not the same on all ranks, although somebody should average them."
    evidence = ("checksums of gradients before the update, on all ranks",)
    explains = frozenset({"replicas_diverge"})
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("replicas_differ"):
            if event.values.get("kind") in ("gradient", "forgotten"):
                yield differing.conclude(event, case.parts.values())
                return


class GradientsSummed(Rule):
    """Gradients that are summed over ranks and never divided, in a training that runs away."""

    fault = "gradients_summed_over_ranks"
    category = "distributed"
    finds = "Gradients summed over ranks by hand (all_reduce) and not divided by their number, where training diverges."
    evidence = ("gradients after all_reduce against those an optimizer uses", "the loss and what backward is given")
    explains = frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu"}) | NONFINITE
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        part = case.parts.get(("wrapper", "all_reduce"))
        ranks = part.settings.get("ranks") if part is not None else None
        if part is None or not part.settings.get("summed") or not isinstance(ranks, int):
            return
        if not (case.diverged() or "lr_too_high" in case.findings_of) or not self._whole(case):
            return
        yield self.finding(
            f"gradients are summed over {ranks} ranks, not averaged",
            confidence=0.9,
            since_step=0,
            where=where(part.source, op="all_reduce"),
            why=f"all_reduce gives each process the sum of the gradients of all {ranks} ranks, and the optimizer uses"
            f" it as it is: nobody divides by the world size, so each update is {ranks} times as large as that of the"
            f" mean over ranks, as with a learning rate {ranks} times as high, and the training diverges",
            facts=[("ranks", ranks), ("first loss", case.loss.first), ("highest loss", case.loss.most)],
            fix=("divide after the sum: p.grad /= dist.get_world_size(), or all_reduce with op=ReduceOp.AVG",),
            confirm=("train with the learning rate divided by the number of ranks: the loss falls",),
        )

    @staticmethod
    def _whole(case: Case) -> bool:
        """Whether backward begins at a mean over samples: a loss divided by the ranks beforehand is right as it is."""
        site = case.losses.main()
        if site is None or site.first.get("reduction", "mean") != "mean":
            return False
        given = {step: losses[0] for step, losses in case.first_losses if len(losses) == 1}
        both = [(value, given[step]) for step, value in site.first_values if step in given]
        return bool(both) and all(math.isclose(a, b, rel_tol=1e-5) for a, b in both if math.isfinite(a))


class ReplicasDiverge(Rule):
    """Replicas whose weights, buffers or averaged copies are no longer the same bit by bit."""

    fault = differing.DIVERGE
    category = "distributed"
    finds = (
        "Weights, buffers or averaged copies that replicas should hold alike differ between ranks, by a bit or more."
    )
    evidence = ("checksums of weights, buffers and averaged copies behind the update, on all ranks",)
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("replicas_differ"):
            if event.values.get("kind") in ("start", "weight", "buffer", "copy", "alone", "exchanged"):
                yield differing.conclude(event, case.parts.values())
                return


class CollectivesOutOfOrder(Rule):
    """Collectives that ranks call in different orders."""

    fault = differing.OUT_OF_ORDER
    category = "distributed"
    finds = "Ranks call collectives in different orders, so that what does not belong together is summed."
    evidence = ("the collectives that the program calls itself in a step, in order, on all ranks",)
    explains = frozenset({"replicas_diverge", "gradients_not_averaged"})
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("replicas_differ"):
            if event.values.get("kind") == "collective":
                yield differing.conclude(event, case.parts.values())
                return


class SamplerEpochNotSet(Rule):
    """A sampler that divides data among ranks and is never told of the next epoch."""

    fault = "sampler_epoch_not_set"
    category = "distributed"
    finds = "A DistributedSampler without set_epoch: every epoch hands out the same samples in the same order."
    evidence = ("what the sampler shuffles by, at the beginning of each epoch",)
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("same_order"):
            epochs, since, told = (event.values.get(name) for name in ("epochs", "since", "epoch"))
            yield self.finding(
                "every epoch is shuffled alike: set_epoch is not called",
                confidence=0.85,
                since_step=since if isinstance(since, int) else 0,
                where=where(event.source, op="DataLoader"),
                why=f"{epochs} epochs in a row began with the DistributedSampler at epoch {told}: it"
                " shuffles by its seed and that number, so each rank sees the same samples in the same order in every"
                " epoch, makes the same batches of them, and never meets those of the other ranks",
                facts=[
                    ("epochs with the same order", epochs),
                    ("epoch the sampler was told", told),
                ],
                fix=("call sampler.set_epoch(epoch) at the beginning of each epoch",),
                confirm=("print the indices of the first batch of two epochs: they are the same",),
            )
            return
