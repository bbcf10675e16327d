"""Only one processor computes."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence

WORK = 2e9


class OneThread(AdviceRule):
    fault = "one_thread"
    symptom = "Large operators run on one of several processors."
    measure = "Threads of the framework, processors of this process, floating-point operations of a step."
    threshold = "One thread, at least two processors, two billion operations a step."
    advice = "OMP_NUM_THREADS, torch.set_num_threads; look whether a launcher has set it to 1."
    frameworks = ("torch",)

    def look(self, reading: Reading) -> Advice | None:
        cores, threads = int(reading.number("cores")), int(reading.number("threads"))
        if threads != 1 or cores < 2 or reading.flops < WORK or reading.accelerator or reading.profile.ranks > 1:
            return None
        return Advice(
            self.fault,
            f"one of {cores} processors computes",
            "the framework may use one thread only; launchers and job systems often set OMP_NUM_THREADS=1",
            0.8 * (1 - 1 / cores),
            evidence=(Evidence("threads", threads), Evidence("processors", cores)),
            fix=(f"OMP_NUM_THREADS={cores}, or torch.set_num_threads({cores})",),
            tries=(f"threads={cores}",),
            confidence=0.7,
        )
