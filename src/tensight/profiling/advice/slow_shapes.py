"""One operator is much slower with some shapes or dtypes than with others."""

from __future__ import annotations

from collections import defaultdict

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence
from tensight.records.timing import OperatorTime

WORK = 1e8  # floating-point operations of a call, so that calling does not count
SLOWER = 6.0
SHARE = 0.25


class SlowShapes(AdviceRule):
    fault = "slow_shape"
    symptom = "The same operator varies greatly in speed with shape or dtype."
    measure = "Floating-point operations a second of each operator by shape and dtype, for large calls."
    threshold = "Six times slower than the same operator elsewhere in the step, and 25 % of all operators' time."
    advice = "Another dtype or layout, sizes that are multiples of 16 (64 on accelerators), or another operator."

    def look(self, reading: Reading) -> Advice | None:
        by_name: dict[str, list[OperatorTime]] = defaultdict(list)
        for one in reading.profile.operators:
            if one.flops and one.calls and one.total > 0 and one.flops / one.calls >= WORK:
                by_name[one.name].append(one)
        whole = reading.number("operator_seconds")
        for rows in by_name.values():
            best = max(rows, key=_speed)
            for row in rows:
                share = row.total / whole if whole else 0.0
                slower = _speed(best) / _speed(row)
                if share >= SHARE and slower >= SLOWER:
                    return Advice(
                        self.fault,
                        f"{row.name} is {slower:.0f} times slower with {row.shapes} {row.dtypes}",
                        f"the same operator with {best.shapes} {best.dtypes} does {_speed(best) / 1e9:.3g} billion "
                        f"operations a second, here {_speed(row) / 1e9:.3g}",
                        share * (1 - 1 / slower),
                        op=row.name,
                        evidence=(Evidence("share of operators' time", percent(share)),),
                        fix=("try another dtype, pad to multiples of 16, or use an operator made for this shape",),
                        confidence=0.6,
                    )
        return None


def _speed(row: OperatorTime) -> float:
    return row.flops / row.total
