"""Memory that grows because graphs are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding, Source

GROWS = 3  # graphs more per step


class GraphRetained(Rule):
    """Losses that are kept with their graphs, step after step."""

    fault = "graph_retained_by_accumulation"
    category = "resource"
    finds = "Losses or outputs kept with their autograd graphs (total += loss), so memory grows with every step."
    evidence = ("results with a graph that are still alive, over the steps", "memory of the process")
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        alive = case.scalars.get("graphs_alive")
        if alive is None or alive.count < 6:
            return []
        points = [value for _, value in alive.points]
        middle = points[len(points) // 2]
        grown = points[-1] - points[0]
        if grown < max(GROWS, 0.5 * len(points)) or not points[0] <= middle <= points[-1] or points[-1] <= middle:
            return []
        source = self._where(case)
        memory = case.scalars.get("memory")
        megabytes = (memory.last - memory.first) / 2**20 if memory is not None and memory.count > 1 else None
        said = (
            f", and the process has grown by {number(megabytes)} MB" if megabytes is not None and megabytes > 1 else ""
        )
        return [
            self.finding(
                "losses are kept with their graphs: memory grows",
                confidence=0.9,
                since_step=alive.first_step,
                where=where(source),
                why=f"{number(points[-1])} results with an autograd graph are alive, {number(points[0])} were"
                f" after the first step"
                f" of {plural(alive.count, 'step')}{said}: a loss or output that is added up or stored without"
                f" .item() or detach()"
                " keeps the whole graph behind it, so memory grows (a leak) until it runs out",
                facts=[
                    ("graphs alive at first", points[0]),
                    ("graphs alive now", points[-1]),
                    ("growth of the process in MB", megabytes),
                ],
                fix=(f"add numbers, not tensors: total += loss.item(){at(source)}; evaluate under torch.no_grad()",),
            )
        ]

    @staticmethod
    def _where(case: Case) -> Source | None:
        """The line of the losses that no backward used: where most of them are computed."""
        lines: Counter[Source] = Counter()
        for kept in case.deep():
            for event in kept.record.events:
                if event.kind == "loss" and event.source is not None and event.values.get("grad", True):
                    lines[event.source] += 1
        return max(lines, key=lambda source: lines[source]) if lines else None
