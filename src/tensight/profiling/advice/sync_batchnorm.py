"""Every normalisation waits for all ranks."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence

MANY = 20
SMALL = 16


class SyncBatchNorms(AdviceRule):
    fault = "sync_batch_norm"
    symptom = "Ranks exchange statistics in every normalisation, in both passes."
    measure = "SyncBatchNorm layers of the model, ranks, samples of a batch."
    threshold = "More than 20 layers, several ranks, more than 16 samples on each."
    advice = "Plain BatchNorm: with so many samples on a rank its own statistics do."
    frameworks = ("torch",)

    def look(self, reading: Reading) -> Advice | None:
        layers = int(reading.number("sync_batch_norms"))
        if layers <= MANY or reading.profile.ranks < 2 or reading.batch <= SMALL:
            return None
        return Advice(
            self.fault,
            f"{layers} SyncBatchNorm layers let all ranks wait for each other",
            f"each is an exchange in forward and one in backward, that is {2 * layers} a step",
            0.1,
            evidence=(Evidence("layers", layers), Evidence("samples in a batch", reading.batch)),
            fix=("use BatchNorm, or synchronise only the layers that see few samples",),
            confidence=0.6,
        )
