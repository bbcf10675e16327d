"""Gradients that arrive and are exactly zero, behind an operator without a slope."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.wiring import common
from tensight.diagnosis.words import called, number, plural, some, where
from tensight.records import Event, Finding

LOOKS = 4  # steps in which clamp must be seen to hold everything
HELD = 0.97  # share of values that lie outside
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


class HeldAtLimit(Rule):
    """clamp holds all that a network gives at its limits."""

    fault = "clamp_blocks_gradient"
    category = "gradient-flow"
    finds = "An output that clamp holds at its limits nearly everywhere: the gradient is zero there, nothing learns."
    evidence = ("values that clamp changes in the first steps", "gradients that are zero", "course of the loss")
    explains = frozenset({"lr_too_low", "dead_relu", "vanishing_gradient", "labels_shuffled_against_inputs"}) | {
        "operator_without_slope"
    }
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        seen: dict[object, list[tuple[int, Event]]] = {}
        for step, event in case.noted.of("held"):
            seen.setdefault((event.part, event.source), []).append((step, event))
        trend = case.loss.trend()
        if case.order.updates < STEPS or trend is None or trend.fall > 0.1:
            return
        for calls in seen.values():
            shares = [float(share) for _, event in calls if isinstance(share := event.values.get("share"), float)]
            if len({step for step, _ in calls}) < LOOKS or not shares or min(shares) < HELD:
                continue
            step, event = calls[0]
            dead = self._dead(case, event.part)
            if dead:
                yield self._say(step, event, len(calls), dead)

    @staticmethod
    def _dead(case: Case, network: str) -> list[Entry]:
        """Trained weights whose gradient has been nothing, or next to nothing, in every observed step."""
        entries = [entry for entry in case.ledger.of(network) if entry.held and entry.layer and entry.gradient >= 0]
        silent = [entry for entry in entries if not entry.alive and entry.zero_gradients >= LOOKS]
        return silent if len(silent) >= 0.5 * len(entries) else []

    def _say(self, step: int, event: Event, calls: int, dead: list[Entry]) -> Finding:
        values, module = event.values, str(event.values.get("module") or "")
        limits = [f"{name} {number(limit)}" for name in ("min", "max") if isinstance(limit := values.get(name), float)]
        low, high = (
            value if isinstance(value := values.get(name), float) else None for name in ("smallest", "largest")
        )
        return self.finding(
            "clamp holds every value at its limit: no gradient comes through",
            confidence=0.94,
            since_step=step,
            where=where(event.source, module=module, op="clamp", parameter=dead[0].name, network=event.part),
            why=f"clamp ({', '.join(limits)}) in {called(module)} is given values between {number(low)} and"
            f" {number(high)}, outside its range nearly everywhere: its slope is zero there, so the gradient of"
            f" {some([entry.name for entry in dead])} is exactly zero and the loss stays where it is"
            f" ({plural(calls, 'call')} looked at)",
            facts=[
                ("smallest value given to clamp", low),
                ("largest value given to clamp", high),
                ("weights whose gradients are zero", len(dead)),
            ],
            fix=(
                "map to the range smoothly: low + (high - low) * torch.sigmoid(x), or start inside the range (bias)",
                "or clamp only what is shown or measured, not what the loss is computed of",
            ),
            confirm=(f"print({dead[0].name}.grad.abs().max()): it is 0.0",),
        )
