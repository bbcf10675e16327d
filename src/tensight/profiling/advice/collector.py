"""Python's garbage collector takes part."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence

SHARE = 0.05
OFTEN = 0.25


class GarbageCollection(AdviceRule):
    fault = "garbage_collection"
    symptom = "Steps stop for the garbage collector."
    measure = "Time in the collector in the clocked steps, and collections that the program asks for."
    threshold = "5 % of the time without the longest one, or gc.collect() in every fourth step."
    advice = "Do not call gc.collect() in the loop; gc.freeze() after the set-up; break cycles that hold tensors."

    def look(self, reading: Reading) -> Advice | None:
        found = reading.profile.collecting
        steps = len(reading.clocked)
        whole = reading.seconds * steps
        share = found.seconds / whole if whole else 0.0
        asked = found.asked / steps if steps else 0.0
        # one long collection may be what the set-up has left behind
        again = (found.seconds - found.longest) / whole if whole else 0.0
        if again < SHARE and (asked < OFTEN or found.asked < 3):
            return None
        why = f"{found.collections} collections took {milliseconds(found.seconds)} of {milliseconds(whole)}"
        if found.asked:
            why += f"; the program asked for {found.asked} of them"
        return Advice(
            self.fault,
            f"the garbage collector takes {percent(share)} of the time",
            why,
            max(share, 0.02),
            found.source,
            evidence=(
                Evidence("share of the time", round(share, 3)),
                Evidence("collections", found.collections),
                Evidence("asked for by the program", found.asked),
                Evidence("longest", milliseconds(found.longest)),
            ),
            fix=(
                "take gc.collect() out of the loop" if found.asked else "find what makes so many objects in the loop",
                "gc.freeze() once the model is built, and a higher gc.set_threshold",
            ),
            tries=("collector",),
            confidence=0.95,
        )
