"""What a dump shows to be wrong: the findings of a run, and the first operator that gave a value that is not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensight.diagnosis.engine import Engine
from tensight.diagnosis.words import bad_kind
from tensight.records import Evidence, Finding, Network, Observation, StepRecord, TensorInfo, Where

_OPERATORS = ("operator", "operator_gradient", "activation")


class Conclusions:
    """Follows the steps of a dump as they are read."""

    def __init__(self, networks: Sequence[Network], tensors: Mapping[int, TensorInfo], rank: int) -> None:
        self._tensors = tensors
        self._rank = rank
        self._first: tuple[int, Observation, list[Observation]] | None = None
        self._engine = Engine(on_error=lambda where, error: None)
        for network in networks:
            self._engine.network(network)
        for info in tensors.values():
            self._engine.tensor(info)

    def step(self, record: StepRecord) -> None:
        self._engine.step(record)
        if self._first is None:
            bad = [one for one in record.observations if one.stats.bad]
            made = next((one for one in bad if self._tensors[one.tensor].kind in _OPERATORS), None)
            if made is not None:
                self._first = (record.step, made, self._given(record, made))

    def findings(self) -> list[Finding]:
        self._engine.end(crashed=False)
        found = list(self._engine.findings)
        if found or self._first is None:
            return found
        return [self._operator(*self._first)]

    def _given(self, record: StepRecord, made: Observation) -> list[Observation]:
        """What the operator was given, as far as it was dumped."""
        info = self._tensors[made.tensor]
        place = (info.network, info.node, info.op, info.call, info.phase)
        return [
            one
            for one in record.observations
            if (other := self._tensors[one.tensor]).kind == "module_input"
            and (other.network, other.node, other.op, other.call, other.phase) == place
        ]

    def _operator(self, step: int, made: Observation, given: Sequence[Observation]) -> Finding:
        info = self._tensors[made.tensor]
        what = bad_kind(made.stats.nan, made.stats.inf, made.stats.neg_inf)
        name = " ".join(filter(None, (info.node, info.op)))
        count = f"{made.stats.bad} of {made.stats.count} values of its result are not finite"
        if not given:
            why, certain = f"{count}; what it was given was not dumped", 0.5
        elif any(one.stats.bad for one in given):
            why, certain = f"{count}, and what it was given had such values already: they come from outside", 0.6
        else:
            why, certain = f"{count}, and all it was given was finite", 0.8
        source = info.source
        return Finding(
            fault="nonfinite_value",
            category="numeric-nonfinite",
            title=f"{name} gives {what}",
            confidence=certain,
            since_step=step,
            where=Where(
                module=info.node,
                op=info.op or None,
                file=source.file if source else None,
                line=source.line if source else None,
                code=source.code if source else None,
                network=info.network or None,
            ),
            why=why,
            evidence=(Evidence("values that are not finite", made.stats.bad, step),),
            fix=("look at what the operator was given: `run.affected(…, up=True)` names where it comes from",),
            since="the first value of the dump that is not finite",
            rank=self._rank,
        )
