"""Tensors are copied into another layout."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence

SHARE = 0.15
LINES = 0.05  # of the operators' time, by copies whose line is known
COUNT = 2


class LayoutChanges(AdviceRule):
    fault = "layout_changes"
    symptom = "Time goes into copies that only change how a tensor lies in memory."
    measure = (
        "clone, contiguous and copy_ of tensors that are not contiguous, in the located steps; copies without a cast "
        "in the traced ones, with those inside of backward operators."
    )
    threshold = "15 % of the operators' time, 5 % from lines that are known, twice a step."
    advice = "Permute once, keep channels-last from end to end, or use an operator that takes the layout as it is."

    def look(self, reading: Reading) -> Advice | None:
        copies = [call for call in reading.profile.copies if call.detail and call.part != "update"]
        located, count = reading.operator_share(copies), reading.per_step(copies)
        if located < LINES or count < COUNT:
            return None
        # gradients are turned back inside of backward operators, where only the profiler sees it
        share = max(located, _traced(reading))
        if share < SHARE:
            return None
        worst = max(copies, key=lambda call: call.seconds)
        return Advice(
            self.fault,
            f"{count:.0f} copies a step into another layout: {percent(share)} of the operators' time",
            "tensors are permuted and then copied, since the next operator wants them contiguous",
            share,
            worst.source,
            module=worst.module or None,
            op=worst.what,
            evidence=(Evidence("copies a step", round(count, 1)), Evidence("share", round(share, 3))),
            fix=("keep one layout; for convolutions model.to(memory_format=torch.channels_last), inputs too",),
            tries=("channels_last",) if reading.number("convolutions") else (),
            confidence=0.7,
        )


def _traced(reading: Reading) -> float:
    """Share of copies of whole tensors within one dtype, of all operators' time in the traced steps."""
    whole = reading.number("operator_seconds")
    copies = (one for one in reading.profile.operators if one.name == "aten::copy_" and "," not in one.dtypes)
    return sum(one.seconds for one in copies if "x" in one.shapes) / whole if whole else 0.0
