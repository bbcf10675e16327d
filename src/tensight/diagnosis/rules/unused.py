"""Layers that are made and handed to an optimizer, and that forward never calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, some, where
from tensight.records import Finding

STEPS = 5  # observed steps before one says never
UPDATES = 10
CHOSEN = ("ModuleList", "ModuleDict")  # which of their members run may depend on the data


class ModuleNeverUsed(Rule):
    """A module that never runs, beside its like that runs in its place."""

    fault = "module_never_used"
    category = "graph-wiring"
    finds = (
        "A part of the model that is never called while another of the very same shape is called twice in its place."
    )
    evidence = ("which modules run, and how often in one pass", "shapes of their parameters", "gradients and updates")
    explains = frozenset({"lr_too_low"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.deep_steps < STEPS or case.order.updates < UPDATES:
            return
        for network in case.trained():
            if case.networks[network].compiled:
                continue  # what runs inside is not seen module by module
            silent = [entry for entry in case.ledger.of(network) if _silent(entry)]
            if not silent:
                continue
            calls = self._calls(case, network)
            for path, twin in self._idle(case, network, silent, calls):
                yield self._say(case, network, path, twin, calls[twin])

    @staticmethod
    def _calls(case: Case, network: str) -> dict[str, float]:
        """Module → calls per forward pass of the module that holds it, at least, over all observed steps."""
        fewest: dict[str, float] = {}
        for kept in case.deep():
            counts: Counter[str] = Counter()
            for one, info in kept.of_kind("output", "activation"):
                if info.network == network and info.slot.startswith("output"):
                    counts[info.node] = max(counts[info.node], info.call + 1, len(kept.all(one.tensor)))
            for path, count in counts.items():
                holder = counts.get(path.rpartition(".")[0], 0) or counts.get("", 0) or 1
                fewest[path] = min(fewest.get(path, count / holder), count / holder)
        return fewest

    @staticmethod
    def _idle(case: Case, network: str, silent: list[Entry], calls: dict[str, float]) -> Iterable[tuple[str, str]]:
        """(a module that never ran, its like that runs at least twice in each pass)"""
        entries = case.ledger.of(network)
        types = {module.path: module.type for module in case.networks[network].modules}
        for path in _outermost(silent, calls):
            holder = path.rpartition(".")[0]
            own = [entry for entry in entries if _inside(entry, path)]
            if (
                (holder and holder not in calls)
                or types.get(holder) in CHOSEN
                or len(own) != sum(_inside(e, path) for e in silent)
            ):
                continue
            for other in types:
                if other == path or other.rpartition(".")[0] != holder or calls.get(other, 0) < 2:
                    continue
                theirs = [entry for entry in entries if _inside(entry, other)]
                if _shapes(theirs, other) == _shapes(own, path) and any(entry.alive for entry in theirs):
                    yield path, other
                    break

    def _say(self, case: Case, network: str, path: str, twin: str, times: float) -> Finding:
        own = [entry for entry in case.ledger.of(network) if _inside(entry, path)]
        return self.finding(
            f"{path} is never used: {twin} runs in its place",
            confidence=0.9,
            since_step=0,
            where=where(case.source_of(network, path), module=path, parameter=own[0].name, network=network),
            why=f"{path} was never called in {plural(case.deep_steps, 'observed step')} and gets no gradient, although"
            f" {plural(len(own), 'parameter')} of it ({some([entry.name for entry in own])}) are in the optimizer;"
            f" {twin}, whose parameters have the same shapes, runs {number(times)} times in each pass. So {twin} does"
            f" the work of both",
            facts=[
                (f"calls of {path}", 0),
                (f"calls of {twin} per pass", times),
                ("values in it that are never trained", sum(entry.parameter.size for entry in own)),
            ],
            fix=(
                f"call self.{path} where self.{twin} is called the second time; or remove {path}, if it is not meant",
            ),
            confirm=(f"print({own[0].name}.grad): it is None after backward",),
        )


def _silent(entry: Entry) -> bool:
    """Whether an optimizer holds a parameter that never had a gradient."""
    return entry.gradient < 0 and entry.held and entry.parameter.trainable


def _inside(entry: Entry, path: str) -> bool:
    return entry.parameter.module == path or entry.parameter.module.startswith(f"{path}.")


def _outermost(silent: list[Entry], calls: dict[str, float]) -> list[str]:
    """The modules directly inside one that ran which hold a silent parameter and of which nothing ran."""
    found: dict[str, None] = {}
    for entry in silent:
        pieces = entry.parameter.module.split(".")
        for length in range(1, len(pieces) + 1):
            path = ".".join(pieces[:length])
            if path and not any(ran == path or ran.startswith(f"{path}.") for ran in calls):
                found[path] = None
                break
    return list(found)


def _shapes(entries: list[Entry], path: str) -> list[tuple[str, tuple[int, ...]]]:
    """Own names and shapes of the parameters below a module."""
    return [(entry.name[len(path) + 1 :], entry.parameter.shape) for entry in entries]
