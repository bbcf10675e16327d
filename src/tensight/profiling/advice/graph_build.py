"""Building the graph takes longer than training does."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds
from tensight.records import Evidence

SECONDS = 30.0
STEPS = 1000  # that building may last for


class GraphBuild(AdviceRule):
    fault = "slow_graph_build"
    symptom = "A graph is built for a long time before the first step."
    measure = "Seconds of building, told apart from steps, against the time of a step."
    threshold = "30 seconds, and as long as a thousand steps."
    advice = "A compile cache, fewer unrolled loops and branches, shared code for repeated layers."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        seconds, graphs = reading.profile.compiling.seconds, reading.profile.compiling.graphs
        if seconds < SECONDS or seconds < STEPS * reading.seconds or reading.number("graphs_late") >= 2:
            return None
        return Advice(
            self.fault,
            f"building {graphs} graph{'' if graphs == 1 else 's'} took {milliseconds(seconds)}",
            f"that is as long as {seconds / reading.seconds:.0f} steps; steps themselves are not slowed by it"
            if reading.seconds
            else "no step was made in that time",
            0.01,
            evidence=(Evidence("seconds of building", round(seconds, 1)), Evidence("graphs", graphs)),
            fix=(
                "keep what was built: set_context(enable_compile_cache=True), or MS_COMPILER_CACHE_ENABLE=1",
                "loops and branches over Python values are unrolled: use tensors' own control flow",
                "@mindspore.lazy_inline on a layer that is repeated builds it once",
            ),
            confidence=0.8,
        )
