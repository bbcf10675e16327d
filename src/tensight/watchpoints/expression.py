"""Conditions written as an expression over statistics: `max > 3 * median(max, 100)`."""

from __future__ import annotations

from collections.abc import Callable

from tensight.records import Needs, Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, History, Verdict, finite_note, unjudged
from tensight.watchpoints.statistics import STATISTICS


class Expression(Condition):
    """EXPR: what you write yourself. The text is parsed by Tensight and never run as Python.

    >>> Expression("max > 3 * median(max, 100)")
    Expression('max > 3 * median(max, 100)')
    """

    code = "EXPR"
    name = "expression"
    title = "Expression"
    finds = "The comparison you wrote holds."
    matters = "It is what you know of this network that no ready condition says."
    causes = ("You know best: the record names both sides of the comparison that held.",)
    try_ = ("Look at the history of the statistics that the expression names.",)
    examples = ()

    def __init__(self, text: str) -> None:
        super().__init__()
        self.expression = text.strip()
        from tensight.watchpoints.parser import Parser  # most trainings are watched without an expression

        parsed = Parser(self.expression)
        self.history = parsed.history
        self._run = parsed.run
        self._comparisons = parsed.comparisons
        used = [STATISTICS[name] for name in parsed.names]
        self._values = any(not statistic.counts for statistic in used)
        self._change = any(statistic.change for statistic in used)

    def text(self) -> str:
        """
        >>> Expression(" nan > 0 ").text()
        'nan > 0'
        """
        return self.expression

    def needs(self) -> Needs:
        return Needs(change=self._change)

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        if self._change and now.change is None:
            return Verdict(error="no_prev", note="no value from before the optimizer step was kept")
        earlier = history.stats
        outcome = self._run(now, earlier)
        if outcome is None:
            return unjudged(now) or QUIET
        if not outcome:
            return QUIET
        held: dict[str, tuple[float, float | None]] = {}
        for text, left, right, run in self._comparisons:
            if run(now, earlier):
                held[text] = (left(now, earlier) or 0.0, right(now, earlier) or 0.0)
        return Verdict(held or {self.expression: (1.0, None)}, note=finite_note(now) if self._values else "")

    def gate(self, info: TensorInfo) -> Callable[[Stats], object] | None:
        if self.history:
            return None
        run = self._run
        return lambda stats: run(stats, ()) is not False or not stats.count

    def __repr__(self) -> str:
        return f"Expression({self.expression!r})"
