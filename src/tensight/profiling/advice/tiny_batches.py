"""Too little work for each operator."""

from __future__ import annotations

import math

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence

SAMPLES = 8
WORK = 1e6  # floating-point operations of a matrix product that are not worth the call
ELEMENTS = 32_768  # of what a product works on: more, and moving it is work, whatever is computed
OPERATORS = 20


class TinyBatches(AdviceRule):
    fault = "tiny_batches"
    symptom = "Calling operators takes longer than what they do."
    measure = "Samples in a batch, and floating-point operations of a matrix product or convolution."
    threshold = (
        "At most 8 samples, a product of less than a million operations and 32,768 numbers, 20 operators a step."
    )
    advice = "Larger batches, with the learning rate scaled; torch.compile for what must stay small."

    def look(self, reading: Reading) -> Advice | None:
        batch, steps = reading.batch, max(1.0, reading.number("traced_steps"))
        products = [one for one in reading.profile.operators if one.flops and one.calls]
        calls = sum(one.calls for one in reading.profile.operators)
        if not 0 < batch <= SAMPLES or not products or calls / steps < OPERATORS:
            return None
        work = sum(one.flops for one in products) / sum(one.calls for one in products)
        handled = sum(_elements(one.shapes) * one.calls for one in products) / sum(one.calls for one in products)
        if work > WORK or handled > ELEMENTS:
            return None
        loader = reading.loader
        samples = loader.batch_size * loader.length if loader is not None else 0
        if loader is not None and loader.length and samples < 4 * SAMPLES:
            return None  # there is no more data
        return Advice(
            self.fault,
            f"batches of {batch}: operators are too small to be worth their call",
            f"a matrix product does {work:.3g} operations, and a step makes {calls / steps:.0f} operator calls of some "
            "microseconds each whatever they do",
            0.5,
            loader.source if loader is not None else None,
            evidence=(
                Evidence("samples in a batch", batch),
                Evidence("operations of a product", int(work)),
                Evidence("operator calls a step", int(calls / steps)),
            ),
            fix=(
                f"raise batch_size from {batch} to {8 * max(batch, 4)} or more, and the learning rate with it",
                "where the batch must stay small, torch.compile joins operators",
            ),
            tries=("batch=8", "compile") if loader is not None else ("compile",),
            confidence=0.8,
        )


def _elements(shapes: str) -> int:
    """Numbers in the first operand.

    >>> _elements("8x16x32x32, 16x1x1x1, 16"), _elements("")
    (131072, 0)
    """
    first = shapes.partition(",")[0].strip()
    sizes = [int(size) for size in first.split("x") if size.isdigit()]
    return math.prod(sizes) if sizes else 0
