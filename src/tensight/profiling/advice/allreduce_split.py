"""All gradients are exchanged at once, after the backward pass."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence

TENSORS = 20


class AllReduceSplit(AdviceRule):
    fault = "allreduce_not_split"
    symptom = "One AllReduce at the end of the backward pass, which nothing hides."
    measure = "all_reduce_fusion_config of the parallel context, the ranks, and how many weights there are."
    threshold = "Not set, in graph mode with several ranks and at least 20 weights."
    advice = "all_reduce_fusion_config: gradients of the last layers are sent while the first are still computed."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        tensors = int(reading.number("parameter_tensors"))
        split = reading.fact("allreduce_split")
        if reading.profile.ranks < 2 or split is not False or reading.fact("mode") != "graph" or tensors < TENSORS:
            return None
        middle = tensors // 2
        return Advice(
            self.fault,
            "gradients are exchanged at once, after the backward pass",
            f"{reading.profile.ranks} ranks wait for the gradients of all {tensors} weights together; in parts, most "
            "of the exchange runs beside the backward pass",
            0.1,
            evidence=(Evidence("ranks", reading.profile.ranks), Evidence("weights", tensors)),
            fix=(
                f"mindspore.set_auto_parallel_context(all_reduce_fusion_config=[{middle}, {tensors}])",
                "try a few places to split at: what is best depends on the network and the link",
            ),
            confidence=0.6,
        )
