"""Compiled code falls apart."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence


class GraphBreaks(AdviceRule):
    fault = "graph_breaks"
    symptom = "torch.compile goes back to Python in the middle of the model."
    measure = "torch.compile's count of breaks and the functions it has given up, with its reasons and the line."
    threshold = "One."
    advice = "Take the call out of the compiled function, or write it in tensor operators."

    def look(self, reading: Reading) -> Advice | None:
        breaks = reading.profile.compiling.breaks
        if not breaks:
            return None
        worst = next((one for one in breaks if one.source is not None), breaks[0])
        skipped = next((one for one in breaks if one.skipped), None)
        if skipped is not None:
            worst = skipped
        count = sum(one.count for one in breaks)
        return Advice(
            self.fault,
            f"torch.compile gives {skipped.skipped}() up: it runs as if it were not compiled"
            if skipped is not None
            else f"{count} graph break{'' if count == 1 else 's'}: the compiled model goes back to Python",
            f"torch.compile says: {worst.reason}",
            0.15,
            worst.source,
            evidence=(
                Evidence("graph breaks", count),
                Evidence("graphs", reading.profile.compiling.graphs),
            ),
            fix=(
                "move prints, .item() and Python branches on values out of the compiled function",
                "torch.where and masks keep a choice inside the graph; fullgraph=True makes breaks an error",
            ),
            confidence=0.9,
        )
