"""One process drives several devices."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence


class DataParallelUsed(AdviceRule):
    fault = "data_parallel"
    symptom = "nn.DataParallel copies the model to every device in every step."
    measure = "The wrapper, and the devices it uses."
    threshold = "Two devices."
    advice = "DistributedDataParallel, one process for each device."
    frameworks = ("torch",)

    def look(self, reading: Reading) -> Advice | None:
        devices = int(reading.number("data_parallel"))
        if devices < 2:
            return None
        return Advice(
            self.fault,
            f"nn.DataParallel drives {devices} devices from one process",
            "weights are copied to every device in every step, and one interpreter launches all of it",
            0.3,
            evidence=(Evidence("devices", devices),),
            fix=("wrap the model in DistributedDataParallel and start it by torchrun --nproc-per-node",),
            confidence=0.9,
        )
