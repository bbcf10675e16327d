"""Gradients that arrive and are exactly zero, behind an operator without a slope."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.wiring import common
from tensight.diagnosis.words import called, plural, some, where
from tensight.records import Finding

STEPS = 6  # observed gradients of each parameter that were zero everywhere
GIVES_WAY = ("dead_relu", "zero_init", "constant_init_symmetry", "vanishing_gradient", "fp16_gradient_underflow")


class OperatorWithoutSlope(Rule):
    """The front part of a network whose gradients are zero in every value and every step."""

    fault = "operator_without_slope"
    category = "graph-wiring"
    finds = "A part of the network whose gradients are exactly zero: behind it stands round, sign, floor or the like."
    evidence = ("gradients that are zero everywhere, per parameter", "order in which modules run", "outputs of modules")
    explains = frozenset({"lr_too_low"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.order.updates < STEPS or any(fault in case.findings_of for fault in GIVES_WAY):
            return
        for network in case.trained():
            part = case.optimizer_of(network)
            if part is not None and part.settings.get("absent_gradients") == "zeros":
                continue  # there zero may mean none
            cut = self._front(case, network)
            if cut is not None and not self._silenced(case, network):
                yield self._say(case, network, *cut)

    @staticmethod
    def _front(case: Case, network: str) -> tuple[list[Entry], Entry] | None:
        """All that runs before some point has gradients of zero, all behind it has others."""
        listed = {module.path: at for at, module in enumerate(case.networks[network].modules)}
        ran = case.ran(network)
        order = ran if len(ran) > 1 else listed
        entries = [
            entry
            for entry in case.ledger.of(network)
            if entry.held and entry.parameter.trainable and entry.gradient >= 0 and entry.parameter.module in order
        ]
        dead = [entry for entry in entries if not entry.alive]
        living = [entry for entry in entries if entry.alive]
        if not living or not any(entry.layer for entry in dead):
            return None
        if any(entry.zero_gradients < STEPS for entry in dead):
            return None
        last, first = (
            max(order[entry.parameter.module] for entry in dead),
            min(order[entry.parameter.module] for entry in living),
        )
        behind = min(living, key=lambda entry: order[entry.parameter.module])
        return (dead, behind) if last < first else None

    @staticmethod
    def _silenced(case: Case, network: str) -> bool:
        """Whether a module gives nothing but one value: then that is what stops the gradient."""
        for kept in case.latest(1):
            for one, info in kept.forward():
                if info.network == network and one.stats.count > 1 and one.stats.min == one.stats.max:
                    return True
        return False

    def _say(self, case: Case, network: str, dead: list[Entry], behind: Entry) -> Finding:
        place = common([entry.parameter.module for entry in dead])
        module = place or dead[0].parameter.module
        after = behind.parameter.module
        flat = next((event for _, event in case.noted.of("cut") if event.values.get("function") == "round"), None)
        source, op = (flat.source, "round") if flat is not None else (None, None)
        seen = min(entry.zero_gradients for entry in dead)
        return self.finding(
            f"the gradients of {called(module)} are exactly zero",
            confidence=0.88,
            since_step=case.beginning[0].step if case.beginning else 0,
            where=where(
                source or case.source_of(network, module),
                module=module,
                parameter=dead[0].name,
                op=op,
                network=network,
            ),
            why=f"{plural(len(dead), 'parameter')} of {called(module)} ({some([entry.name for entry in dead])}) get a"
            f" gradient in every step, and it was zero in every value each of {seen} times, while {called(after)}"
            " behind is trained: an operator between them has no slope. round, sign, floor and ceil are flat"
            " almost everywhere, so no gradient comes through and nothing before them learns",
            facts=[
                ("parameters whose gradients are zero", len(dead)),
                ("gradients looked at, of each", seen),
                ("values in them", sum(entry.parameter.size for entry in dead)),
            ],
            fix=(
                "let the gradient pass as if nothing were rounded (straight-through): hard + soft - soft.detach()",
                "or use a soft version of the operator in training",
            ),
            confirm=(f"print({dead[0].name}.grad.abs().max()): it is 0.0",),
        )
