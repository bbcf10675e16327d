"""What the terms of a loss were, step by step, under the names that the program gives them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensight.diagnosis.series import Series
from tensight.records import Event, Source

LINE = "line of "


@dataclass(slots=True)
class Term:
    """One summand of a loss."""

    name: str
    source: Source  # the line that makes it
    values: Series = field(default_factory=Series)


class LossTerms:
    """The terms of each loss, by the line that adds them up.

    >>> terms = LossTerms()
    >>> values = {"rec": 2.0, "kl": -7.5, "line of rec": "3 rec = …", "line of kl": "4 kl = …"}
    >>> terms.follow(0, (Event("terms", values=values, source=Source("train.py", 5)),))
    >>> [(term.name, term.values.last, term.source.line) for term in terms.lowest(-5.0)]
    [('kl', -7.5, 4)]
    """

    def __init__(self) -> None:
        self.sums: dict[tuple[str, int], dict[str, Term]] = {}

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.kind != "terms" or event.source is None:
                continue
            known = self.sums.setdefault((event.source.file, event.source.line), {})
            for name, value in event.values.items():
                if name.startswith(LINE) or not isinstance(value, (int, float)):
                    continue
                if name not in known:
                    line, _, code = str(event.values.get(LINE + name, "")).partition(" ")
                    own = Source(event.source.file, int(line), code, event.source.function) if line.isdigit() else None
                    known[name] = Term(name, own or event.source)
                known[name].values.add(step, float(value))

    def lowest(self, below: float) -> list[Term]:
        """Terms whose latest value lies below a limit, the lowest first."""
        found = [term for terms in self.sums.values() for term in terms.values() if term.values.last < below]
        return sorted(found, key=lambda term: term.values.last)
