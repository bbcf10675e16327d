"""The loop itself is slow."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence

SHARE = 0.2
LEAST = 0.15
MOST_OF_IT = 0.4
FEWEST = 5
SCATTERED = 0.25  # of the samples below a line of the loop; less, and no line inside is named


class PythonInStep(AdviceRule):
    fault = "python_in_step"
    symptom = "A line between the passes takes a good part of every step."
    measure = "Samples of the running line, with what it calls, outside loader, model, backward and optimizer."
    threshold = "20 % of the usual step outside, 40 % of it below one line of the loop, which makes 15 % of a step."
    advice = "Do it every so many steps, in tensors instead of Python, or in another process."

    def look(self, reading: Reading) -> Advice | None:
        # a line of the loop costs every step; what only some steps lose there has other reasons
        rest = min(reading.own_share("rest"), reading.typical("rest"))
        loop = reading.loop
        if not loop or rest < SHARE:
            return None
        # samples gather where the interpreter is let go, so they are only compared within one part
        whole = sum(one.samples for one in loop)
        line = loop[0]
        share = rest * line.samples / whole
        if whole < FEWEST or line.samples < MOST_OF_IT * whole or share < LEAST:
            return None
        # a function that is called from there has a line of its own to blame, unless its time is scattered
        called = line.hottest != line.source
        source = line.hottest if line.hottest_samples >= SCATTERED * line.samples else line.source
        code = source.code + line.source.code
        saving = "save(" in code
        fix = "save a checkpoint every so many steps, not in each" if saving else "do it every so many steps only"
        return Advice(
            self.fault,
            f"one line of the loop takes {percent(share)} of the time",
            f"it runs outside of loader, model, backward and optimizer: {milliseconds(reading.split['rest'])} a step",
            share,
            source,
            evidence=(
                Evidence("samples on this line", line.samples),
                Evidence("share", round(share, 3)),
                *([Evidence("called from line", line.source.line)] if called else []),
                Evidence("share of the step outside all parts", round(rest, 3)),
            ),
            fix=(fix, "work on whole tensors instead of elements, or hand it to another process"),
            confidence=0.85,
        )
