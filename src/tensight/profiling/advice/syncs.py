"""Calls that make the program wait for a value."""

from __future__ import annotations

from collections import defaultdict

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence
from tensight.records.timing import Calls

MANY = 16  # from one line in a step, on a processor without an accelerator
SHARE = 0.05


class SynchronisingCalls(AdviceRule):
    fault = "synchronising_calls"
    symptom = "Values of tensors are fetched into Python again and again."
    measure = "`.item()`, `.cpu()`, `bool(tensor)`, `nonzero()` by line in the located steps; optimizers do not count."
    threshold = (
        "On an accelerator once a step; on a processor 16 times a step from one line, or 5 % of the operators' time."
    )
    advice = "Keep the values as tensors, reduce them there, and fetch one number every so many steps."

    def look(self, reading: Reading) -> Advice | None:
        by_line: dict[tuple[str, int], list[Calls]] = defaultdict(list)
        for call in reading.profile.syncs:
            if call.source is not None and call.part != "update":
                by_line[call.source.file, call.source.line].append(call)
        if not by_line:
            return None
        calls = max(by_line.values(), key=lambda rows: (sum(row.calls for row in rows), rows[0].seconds))
        count = reading.per_step(calls)
        share = reading.operator_share(calls)
        if count < (1 if reading.accelerator else MANY) and (share < SHARE or count < 4):
            return None
        source = calls[0].source
        gain = max(reading.line_share(source), share, 0.05)
        return Advice(
            self.fault,
            f"{calls[0].what} is called {count:.0f} times a step from one line",
            "each call waits until the value is there and leaves the tensor's world for Python's"
            + (", and the device stands still meanwhile" if reading.accelerator else ""),
            gain,
            source,
            module=calls[0].module or None,
            evidence=(
                Evidence("calls a step", round(count, 1)),
                Evidence("share of the operators' time", percent(share)),
                Evidence("samples on this line", percent(reading.line_share(source))),
            ),
            fix=(
                "reduce in tensors, e.g. torch.stack(values).sum(), and call .item() once",
                "log every so many steps; `loss.detach()` can be added up without a fetch",
            ),
        )
