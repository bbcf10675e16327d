"""One input of several that is empty, and a part of the network that has nothing else to go by."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import called, plural, where
from tensight.records import Finding, TensorInfo

LONG = 50  # steps without progress
ZEROS = 5  # looks at the input, and at the gradient


class InputIsEmpty(Rule):
    """An input that is zero in every step, beside others that vary."""

    fault = "one_input_is_zero"
    category = "data"
    finds = "One of several inputs that is zero in every step: the layer it feeds never learns, nor does the network."
    evidence = ("values of each input, over steps", "outputs and gradients of the layers", "course of the loss")
    explains = frozenset({"labels_shuffled_against_inputs", "vanishing_gradient", "lr_too_low", "detach_breaks_graph"})
    every = 0

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        """A state that starts at zero, or a mask that hides nothing, leaves no layer without gradients."""
        trend, chance = case.loss.trend(), case.chance_loss()
        if trend is None or case.steps < LONG or not (trend.flat(0.05) or (chance and trend.end > 0.8 * chance)):
            return []
        fed: dict[int, list[bool]] = {}
        for kept in case.deep():
            for one, _ in kept.of_kind("input"):
                if one.phase == "forward" and one.stats.count >= 16:
                    fed.setdefault(one.tensor, []).append(one.stats.zero == one.stats.count)
        empty = [case.tensors[tensor] for tensor, zeros in fed.items() if len(zeros) >= ZEROS and all(zeros)]
        for info in empty:
            layers = [entry for entry in case.layers(info.network) if entry.matrix and entry.held and not entry.alive]
            starved = [entry for entry in layers if entry.zero_gradients >= ZEROS and entry.first_move < 0]
            # Layers behind one that gives zeros alone have another reason.
            if starved and all(_gives_zeros(case, entry) for entry in starved):
                return [self._say(case, info, starved[0], len(fed[info.id]))]
        return []

    def _say(self, case: Case, info: TensorInfo, entry: Entry, steps: int) -> Finding:
        module, network = entry.parameter.module, info.network
        return self.finding(
            f"{info.slot or 'one input'} of the network is zero in every step",
            fault="constant_input",
            confidence=0.85,
            since_step=case.beginning[0].step,
            where=where(case.source_of(network, module), module=module, parameter=entry.name, network=network),
            why=f"all values of one input of the network ({info.slot}) are zero, constant in each of"
            f" {plural(steps, 'observed step')}, while its other inputs vary: {called(module)} gives zeros alone,"
            f" {entry.name} gets gradients of exactly zero and never moves, and the loss does not come down, because"
            " what is to be learnt from that input is not in it",
            facts=[
                ("observed steps in which it is zero", steps),
                ("zero gradients of that layer", entry.zero_gradients),
            ],
            fix=("look at how that input is made: an integer division (a // b is 0 below 1), an unfilled buffer",),
            confirm=("print its min() and max() just before the model is called",),
        )


def _gives_zeros(case: Case, entry: Entry) -> bool:
    """Whether a layer whose weights are not zero has never given anything else."""
    seen = [
        one.stats
        for kept in case.beginning
        for one, info in kept.forward()
        if info.kind == "output" and info.network == entry.network and info.node == entry.parameter.module
    ]
    weight = next((stats for kept in case.beginning if (stats := kept.weight(entry)) is not None), None)
    return bool(seen) and all(s.zero == s.count for s in seen) and weight is not None and weight.zero < weight.count
