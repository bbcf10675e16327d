"""The graph grows from step to step."""

from __future__ import annotations

import itertools

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence


class GrowingGraph(AdviceRule):
    fault = "graph_retained_by_accumulation"
    symptom = "Each step carries the graphs of those before."
    measure = "Autograd nodes that hang on variables, at three moments; nodes that backward runs in each traced step."
    threshold = "More at every moment, or more in every one of at least four steps."
    advice = "Add up `loss.item()` or `loss.detach()`; detach a state that is carried on."
    explains = ("garbage_collection",)

    def look(self, reading: Reading) -> Advice | None:
        counts = [time.backward_operators for time in reading.traced]
        grows = len(counts) >= 4 and all(b > a > 0 for a, b in itertools.pairwise(counts))
        held = reading.profile.held
        if not held and not grows:
            return None
        place = held[0] if held else None
        evidence = []
        if place is not None:
            evidence.append(Evidence(f"autograd nodes held by {place.what}", place.detail))
        if grows:
            evidence.append(Evidence("autograd nodes run by backward", " → ".join(str(count) for count in counts)))
        gain = 0.1
        if grows:
            gain = max(0.3, 1 - counts[0] / counts[-1])
        return Advice(
            self.fault,
            "the graph of older steps is kept alive" + (" and run again" if grows else ""),
            f"{place.what} is part of the graph of every step so far" if place else "backward does more in every step",
            gain,
            place.source if place is not None else None,
            evidence=tuple(evidence),
            fix=(
                "add up numbers, not tensors: total += loss.item(), or loss.detach()",
                "a state that goes on to the next step: state = state.detach()",
            ),
            confidence=0.95,
        )
