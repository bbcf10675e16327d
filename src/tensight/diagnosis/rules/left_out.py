"""Parts of a network that get gradients and that no optimizer was given."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.losses import BINARY_LOSSES, CLASS_LOSSES
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.left_random import without_gradients
from tensight.diagnosis.rules.wiring import common, fresh, size_of
from tensight.diagnosis.words import at, called, number, plural, some, where
from tensight.records import Event, Finding, Part

UPDATES = 20  # of its own optimizer, before one says never
LONG = 50  # steps without any progress


class NotInOptimizer(Rule):
    """Layers as they were made at random, that learn nothing because the optimizer was given other layers only."""

    fault = "parameters_not_in_optimizer"
    category = "graph-wiring"
    finds = "Layers that get gradients and never change: the optimizer was built on another part of the same network."
    evidence = ("which parameters get gradients", "which of them optimizers hold", "whether they move")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "missing_zero_grad"})
    every = 20

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for network in case.networks:
            own = case.optimizer_of(network)
            part = own or (case.main_optimizer() if self._answers(case, network) else _second_of_others(case))
            if part is None or part.unknown_parameters or case.order.optimizer(part.name).steps < UPDATES:
                continue  # what an optimizer holds in place of them is the business of another rule
            left = [entry for entry in case.ledger.of(network) if _left(entry)]
            layers = [entry for entry in left if entry.matrix]
            # Layers that were loaded may be meant to stay: a head is trained on top of them.
            if not layers or not all(fresh(case, entry) for entry in layers) or case.noted.of("loaded"):
                continue
            if own is None or self._behind(case, network, layers) or (final and self._stuck(case, network, layers)):
                yield self._say(network, part, left, case.order.optimizer(part.name).steps)
        yield from without_gradients(self, case, final=final)

    @staticmethod
    def _answers(case: Case, network: str) -> bool:
        """Whether a network in no optimizer is a head, or a loss with weights: the last to run before classes are told.

        Others without an optimizer may be meant to stay as they are: what they give is compared, not what they answer.
        """
        known = CLASS_LOSSES | BINARY_LOSSES
        if not case.trained() or not case.losses.sites or any(site.function not in known for site in case.losses):
            return False
        last = [_last_to_run(kept.record.events) for kept in case.beginning if kept.record.losses]
        return len(last) >= 2 and all(one == network for one in last)

    @staticmethod
    def _behind(case: Case, network: str, layers: list[Entry]) -> bool:
        """Whether some of them run after layers that are trained: nobody freezes a random layer behind those."""
        ran = case.ran(network)
        trained = [ran[e.parameter.module] for e in case.layers(network) if e.held and e.parameter.module in ran]
        return any(ran.get(entry.parameter.module, -1) > min(trained, default=1 << 62) for entry in layers)

    @staticmethod
    def _stuck(case: Case, network: str, layers: list[Entry]) -> bool:
        """Whether they are most of the network, and what is trained on top of them learns nothing."""
        trend = case.loss.trend()
        most = size_of(layers) > 0.5 * size_of(e for e in case.layers(network) if e.matrix)
        return case.steps >= LONG and most and trend is not None and trend.flat(0.02)

    def _say(self, network: str, part: Part, left: list[Entry], updates: int) -> Finding:
        place = common([entry.parameter.module for entry in left])
        of = called(place) if place else network
        return self.finding(
            f"{of} is not in the optimizer: its parameters are never trained",
            confidence=0.9,
            since_step=min(entry.first_gradient for entry in left),
            where=where(part.source, module=place, parameter=left[0].name, network=network),
            why=f"{plural(len(left), 'parameter')} of {of} ({some([entry.name for entry in left])};"
            f" {number(size_of(left))} values) get gradients in every backward pass, but {part.type}{at(part.source)}"
            f" holds only {plural(len(part.parameters), 'other parameter')} and no other optimizer holds them: they"
            f" are as random after {plural(updates, 'update')} as they were made, and their gradients pile up",
            facts=[
                ("parameters with gradients that no optimizer holds", len(left)),
                ("values in them", size_of(left)),
                ("updates so far", updates),
            ],
            fix=(
                f"give the optimizer all parameters: {part.type}(model.parameters(), …){at(part.source)}, or add"
                " these with optimizer.add_param_group",
                "or, if they are meant to stay, set requires_grad_(False) on them: no gradient is computed then",
            ),
            confirm=(f"compare {left[0].name} before and after a step: it is the same",),
        )


def _last_to_run(events: Iterable[Event]) -> str:
    """The network that was called last, with gradients, before the first backward pass."""
    last = ""
    for event in events:
        if event.kind == "backward":
            break
        if event.kind == "forward" and event.values.get("grad", True):
            last = event.part
    return last


def _second_of_others(case: Case) -> Part | None:
    """An optimizer that was given the very parameters which another one has, while a network has none."""
    held: dict[frozenset[str], Part] = {}
    for part in case.optimizers():
        names = frozenset(part.parameters)
        if names and held.setdefault(names, part) is not part:
            return held[names]
    return None


def _left(entry: Entry) -> bool:
    known = entry.parameter
    return known.trainable and known.registered and entry.alive and not entry.held and entry.first_move < 0
