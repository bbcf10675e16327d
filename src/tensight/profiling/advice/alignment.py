"""Sizes do not fit the device's matrix units."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence

MULTIPLE = {"cuda": 8, "npu": 16, "ascend": 16}
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "MatMul", "BatchMatMul")
SHARE = 0.1


class Alignment(AdviceRule):
    fault = "unaligned_shapes"
    symptom = "Matrix products with sizes that the device's matrix units cannot take whole."
    measure = "Sizes of matrix products that are no multiple of 8 (CUDA) or 16 (Ascend). Processors have no such units."
    threshold = "10 % of all operators' time."
    advice = "Pad vocabulary, channels and batch to the multiple."

    def look(self, reading: Reading) -> Advice | None:
        multiple = MULTIPLE.get(reading.profile.device.lower())
        whole = reading.number("operator_seconds")
        if multiple is None or not whole:
            return None
        odd = [one for one in reading.profile.operators if one.name in PRODUCTS and _odd(one.shapes, multiple)]
        share = sum(one.total for one in odd) / whole
        if share < SHARE:
            return None
        worst = odd[0]
        return Advice(
            self.fault,
            f"{percent(share)} of the time is in products with sizes that are no multiple of {multiple}",
            f"e.g. {worst.name} of {worst.shapes}: part of the matrix units stand idle",
            0.3 * share,
            op=worst.name,
            evidence=(Evidence("share of operators' time", round(share, 3)),),
            fix=(f"pad dimensions to multiples of {multiple}",),
            confidence=0.7,
        )


def _odd(shapes: str, multiple: int) -> bool:
    """
    >>> _odd("32x100, 100x64", 8), _odd("32x64, 64x64, 64", 8)
    (True, False)
    """
    sizes = [int(n) for one in shapes.split(", ") if one.count("x") for n in one.split("x") if n.isdigit()]
    return any(size % multiple for size in sizes)
