"""What an agent may ask of recorded runs. Answers are data as JSON carries it: NaN and infinities are strings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tensight.compare import compare
from tensight.errors import UsageError
from tensight.runs.listing import Runs
from tensight.runs.run import Run
from tensight.runs.words import plain

MOST_ROWS = 200

Answer = dict[str, Any]


class Reading:
    """The runs of one folder. Names of runs are looked up there and nowhere else.

    >>> Reading("no such folder").runs()
    {'folder': 'no such folder', 'runs': []}
    """

    def __init__(self, folder: str | Path) -> None:
        self._runs = Runs(folder)

    @property
    def tools(self) -> list[Callable[..., Answer]]:
        """What is offered; the name and the docstring of each are what the agent is told."""
        return [
            self.runs,
            self.findings,
            self.explain,
            self.hits,
            self.tensors,
            self.statistics,
            self.history,
            self.first_bad,
            self.stack,
            self.compare_runs,
        ]

    def runs(self) -> Answer:
        """All recorded runs, the newest first: how each ended, its steps, last loss and findings."""
        return _answer({"folder": str(self._runs.folder), "runs": self._runs.summaries()})

    def findings(self, run: str) -> Answer:
        """Why a run went wrong: what, where (module, operator, line), since which step, why, evidence and fixes."""
        report = self._run(run).report()
        return {"run": report["run"], "findings": report["findings"], "crash": report["crash"], "lost": report["lost"]}

    def explain(self, run: str) -> Answer:
        """The findings of a run as a person would read them."""
        found = self._run(run)
        blocks = []
        for one in found.findings:
            if one.muted:
                continue
            place = ", ".join(str(part) for part in (one.where.module, one.where.op, one.where.parameter) if part)
            line = f"{one.where.file}:{one.where.line}  {one.where.code or ''}".strip() if one.where.file else ""
            blocks.append(
                "\n".join(
                    part
                    for part in (
                        f"step {one.since_step}: {one.title}",
                        f"where: {'; '.join(text for text in (place, line) if text) or 'not located'}",
                        f"why: {one.why}",
                        *(f"fix: {text}" for text in one.fix),
                        *(f"to confirm: {text}" for text in one.confirm),
                    )
                )
            )
        nothing = f"Nothing wrong was found in {found.step_count} steps; the run {found.ended}."
        return {"text": "\n\n".join(blocks) or nothing}

    def hits(self, run: str, offset: int = 0, limit: int = 50) -> Answer:
        """Hits of watchpoints in order of execution: step, node, condition, the set and the actual values."""
        report = self._run(run).report()
        first, count = max(0, offset), _limited(limit)
        return {"total": len(report["hits"]), "offset": first, "hits": report["hits"][first : first + count]}

    def tensors(self, run: str, nodes: str = "*", offset: int = 0, limit: int = 50) -> Answer:
        """Tensors that were watched, by a glob on their node: node, slot, kind, dtype and shape."""
        found = self._run(run).nodes(nodes).all().tensors
        first, count = max(0, offset), _limited(limit)
        return _answer({"total": len(found), "offset": first, "tensors": found[first : first + count]})

    def statistics(self, run: str, node: str, slot: str = "output", step: int | None = None) -> Answer:
        """Statistics of one tensor in one step (the last one that shows it, if no step is given)."""
        tensor = self._run(run).tensor(node, slot, step)
        return _answer({"node": node, "slot": slot, "step": tensor.step, "statistics": tensor.stats})

    def history(self, run: str, node: str, slot: str = "output", statistic: str = "abs_mean", last: int = 50) -> Answer:
        """One statistic of a tensor over its last steps: min, max, mean, abs_mean, std, l2, nan, zero, …"""
        found = self._run(run)
        info = found.tensor(node, slot).info
        table = found.nodes(info.node or info.name).all().stats()
        rows = [row for row in table if row.slot == info.slot and row.kind == info.kind]
        known = msgspec.structs.asdict(rows[0].stats) if rows else {}
        if rows and statistic not in known:
            raise UsageError(f"there is no statistic {statistic!r}: choose one of {', '.join(known)}")
        points = [[row.step, getattr(row.stats, statistic)] for row in rows[-_limited(last) :]]
        return _answer({"node": node, "slot": slot, "statistic": statistic, "points": points})

    def first_bad(self, run: str) -> Answer:
        """The first operator whose result was NaN or infinite: its line, inputs, and how it was found out."""
        replays = self._run(run).replays
        return _answer({"replays": replays})

    def stack(self, run: str, node: str) -> Answer:
        """The user's lines that made the operators of a module, with the code."""
        lines = {}
        for one in self._run(run).select(node):
            if one.source is not None:
                lines[one.source.file, one.source.line] = {"node": one.name, **msgspec.to_builtins(one.source)}
        return _answer({"node": node, "lines": list(lines.values())[:MOST_ROWS]})

    def compare_runs(self, a: str, b: str) -> Answer:
        """Two runs of the folder compared: what differs before training, and the first place where they part."""
        found = compare(self._run(a).path, self._run(b).path).to_dict()
        return _answer({**found, "rows": found["rows"][:MOST_ROWS], "losses": found["losses"][:MOST_ROWS]})

    def _run(self, name: str) -> Run:
        return self._runs[name]


def _limited(count: int) -> int:
    return max(1, min(count, MOST_ROWS))


def _answer(value: object) -> Answer:
    answer: Answer = plain(msgspec.to_builtins(value, enc_hook=str))
    return answer
