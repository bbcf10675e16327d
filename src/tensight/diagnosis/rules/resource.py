"""Memory that grows because graphs are kept, time that is spent on compiling again and again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePath

from tensight.diagnosis.case import Case
from tensight.diagnosis.compiles import Function
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding, Source

GROWS = 3  # graphs more per step
STAYS = 20  # steps for which what an evaluation has left is alive: nobody will use it any more
STORM = 5  # recompilations of one function: training and evaluation, gradients and none, a last small batch need fewer
_COMMENT = re.compile(r"# ([^#]*?)\s+# (?:[^\s#]*/)?([^\s#/]+):(\d+) in ")  # code and place of what a guard is about


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
        steady = grown >= max(GROWS, 0.5 * len(points)) and points[0] <= middle < points[-1]
        if not steady and not self._stairs(alive.points):
            return []
        source = self._where(case)
        memory = case.scalars.get("memory")
        megabytes = (memory.last - memory.first) / 2**20 if memory is not None and memory.count > 1 else None
        said = (
            f", and the process has grown by {number(megabytes)} MB" if megabytes is not None and megabytes > 1 else ""
        )
        told = case.noted.of("graph_alive")
        module = told[-1][1].values.get("module") if told else None
        variable = told[-1][1].values.get("variable") if told else None
        of = f" (all of them from {module}: a hook or a list keeps what it returns)" if isinstance(module, str) else ""
        of = f" (more of them hang on {variable} each time)" if isinstance(variable, str) else of
        return [
            self.finding(
                "losses are kept with their graphs: memory grows",
                confidence=0.9,
                since_step=alive.first_step,
                where=where(source, module=module if isinstance(module, str) else None),
                why=f"{number(points[-1])} results with an autograd graph are alive{of}, {number(points[0])} were"
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
    def _stairs(points: Sequence[tuple[int, float]]) -> bool:
        """Whether evaluations that are far apart each leave several graphs more, and none of them is ever given up."""
        rises = [(step, now - before) for (_, before), (step, now) in pairwise(points) if now != before]
        if len(rises) < 2 or any(by < GROWS for _, by in rises):
            return False
        return all(later - earlier >= STAYS for (earlier, _), (later, _) in pairwise(rises))

    @staticmethod
    def _where(case: Case) -> Source | None:
        """The line of the losses that no backward used, or that keeps what the network has returned."""
        lines: Counter[Source] = Counter()
        for kept in case.deep():
            for event in kept.record.events:
                if event.kind == "loss" and event.source is not None and event.values.get("grad", True):
                    lines[event.source] += 1
        most = max(lines, key=lambda source: lines[source]) if lines else None
        steps = sum(1 for kept in case.deep() if kept.record.losses)
        told = case.noted.of("graph_alive")
        if told and (most is None or len(lines) == 1 or lines[most] <= 1.5 * steps):
            return told[-1][1].source  # each loss has its part in a backward pass: something else is kept
        return most


class RecompilationStorm(Rule):
    """A function that is compiled again and again."""

    fault = "recompilation_storm"
    category = "resource"
    finds = "A function that torch.compile compiles again and again because what it was compiled for keeps changing."
    evidence = ("how often each function was compiled again, in which steps and for which reason",)
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for seen in case.compiles.functions.values():
            if seen.again < STORM:
                continue
            steps = f"in step {seen.since}" if seen.since == seen.last else f"from step {seen.since} to {seen.last}"
            reason = self._short(seen.reasons[-1]) if seen.reasons else ""
            source = self._line(seen) or seen.source
            said = f"; the last time because {reason}" if reason else ""
            yield self.finding(
                "torch.compile compiles the same function again and again",
                confidence=0.85,
                since_step=seen.since,
                where=where(source, op="torch.compile", network=seen.network or None),
                why=f"the function{at(seen.source)} was compiled again {seen.again} times {steps}{said}: each time"
                " training waits for the compiler, and after a few more torch.compile gives up and runs it uncompiled",
                facts=[("recompilations", seen.again), ("reason of the last one", reason or None)],
                fix=(self._fix(seen.reasons),),
                confirm=("set TORCH_LOGS=recompiles to see what changed each time",),
            )

    @staticmethod
    def _short(reason: str) -> str:
        """The reason without torch.compile's advice and columns."""
        return " ".join(reason.partition("(HINT")[0].split())

    @staticmethod
    def _line(seen: Function) -> Source | None:
        """The line that needs what keeps changing: the reason ends with it, as a comment."""
        told = _COMMENT.findall(seen.reasons[-1]) if seen.reasons else []
        if not told or seen.source is None:
            return None
        code, file, line = told[-1]
        if file != PurePath(seen.source.file).name:
            return None
        return Source(seen.source.file, int(line), code.strip(), seen.source.function)

    @staticmethod
    def _fix(reasons: list[str]) -> str:
        if any("size mismatch" in reason or "stride mismatch" in reason for reason in reasons):
            return "pad or bucket batches to few shapes, or compile with dynamic=True (torch._dynamo.mark_dynamic)"
        return (
            "keep what changes out of the compiled function: a number that counts up belongs in a tensor, settings"
            " should stay as they are, and modules that differ in one attribute are compiled once for each value"
        )
