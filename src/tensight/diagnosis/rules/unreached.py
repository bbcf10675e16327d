"""Losses that reach nothing, parts of a network that no loss reaches, gradients that nobody uses."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.wiring import common
from tensight.diagnosis.words import at, called, number, plural, some, where
from tensight.records import Finding

STEPS = 5  # observed steps, backward passes and updates before one says never
PASSES = 20  # backward passes without an update
LONG = 100  # updates before one says that a loss stays where it is


def _trainable(case: Case, network: str) -> list[Entry]:
    return [entry for entry in case.ledger.of(network) if entry.held and entry.parameter.trainable]


class LossReachesNothing(Rule):
    """Backward passes that give no parameter a gradient."""

    fault = "loss_not_connected"
    category = "graph-wiring"
    finds = "A loss whose backward pass reaches no parameter at all, since it was made anew from plain numbers."
    evidence = ("gradients of all parameters", "backward passes and updates", "forward passes with gradients")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        order = case.order
        if min(case.deep_steps, order.backwards, order.updates) < STEPS or not case.optimizers():
            return
        trained = case.trained()
        held = [entry for network in trained for entry in _trainable(case, network)]
        if not held or any(entry.gradient >= 0 or entry.first_move >= 0 for entry in case.ledger):
            return
        if any(case.networks[network].compiled for network in trained):
            return  # gradients inside compiled code may just not have been seen
        if any(kept.of_kind("gradient") for kept in case.beginning):
            return  # of something else, that an optimizer holds
        if any(part.unknown_parameters for part in case.optimizers()) or not self._asked(case, trained):
            return
        site = max((one for one in case.losses if one.first.get("grad", True)), key=lambda one: one.calls, default=None)
        line = max(order.lines.values(), key=lambda one: one.passes)
        made = (event.source for _, event in case.noted.of("cut") if event.values.get("function") == "new_leaf")
        source = next(made, None) or (site.source if site is not None else None) or line.source
        yield self.finding(
            "the loss is not connected to the network: no parameter gets a gradient",
            fault="detach_breaks_graph",
            confidence=0.95,
            since_step=0,
            where=where(
                source,
                op="backward",
                parameter=held[0].name,
                module=held[0].parameter.module,
                network=trained[0],
            ),
            why=f"after {plural(order.backwards, 'backward pass')} not one of {plural(len(held), 'parameter')}"
            f" ({some([entry.name for entry in held])}) has a gradient, and {plural(order.updates, 'update')} changed"
            f" nothing: what backward(){at(line.source)} is called on is not connected to the graph of the network. A"
            " loss made from .item(), .tolist(), numpy or torch.tensor(…, requires_grad=True) is a new leaf, detached"
            " from everything before it",
            facts=[("backward passes", order.backwards), ("parameters without a gradient", len(held))],
            fix=("keep tensors until backward: torch.stack(losses).mean() instead of torch.tensor(numbers)",),
            confirm=("print(loss.grad_fn): it does not lead to the network; parameters have .grad None",),
        )

    @staticmethod
    def _asked(case: Case, trained: list[str]) -> bool:
        """Whether the networks ran with gradients on, where somebody could have used them."""
        return any(
            event.kind == "forward" and event.part in trained and event.values.get("grad", True)
            for kept in case.beginning
            for event in kept.record.events
        )


class GradientsNeverUsed(Rule):
    """Backward passes without a single update."""

    fault = "update_never_applied"
    category = "optimizer-update"
    finds = "A training loop that computes gradients again and again and never changes a weight."
    evidence = ("backward passes", "optimizers and their steps", "whether any weight has changed")
    every = 0

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        order = case.order
        if not final or case.crashed or case.steps or order.updates or case.optimizers() or order.backwards < PASSES:
            return
        # Whoever wants gradients of the inputs (attacks, saliency) leaves the weights alone.
        names = [name for name, mode in case.modes.networks.items() if mode.passes >= PASSES and not mode.searches]
        trainable = [entry for name in names for entry in case.ledger.of(name) if entry.parameter.trainable]
        if not trainable:
            return
        line = max(order.lines.values(), key=lambda one: one.passes)
        first = trainable[0]
        yield self.finding(
            "gradients are computed, but no weight ever changes",
            confidence=0.9,
            since_step=0,
            where=where(
                line.source, module=first.parameter.module, parameter=first.name, op="backward", network=names[0]
            ),
            why=f"{plural(order.backwards, 'backward pass')}{at(line.source)} gave gradients to"
            f" {plural(len(trainable), 'parameter')} ({some([entry.name for entry in trainable])}), there is no"
            " optimizer, and not one weight has changed: the update is never applied. An update by hand must change"
            " the parameter itself: p = p - lr * p.grad gives a name to a new tensor and leaves the old one as it was",
            facts=[("backward passes", order.backwards), ("updates", 0), ("parameters", len(trainable))],
            fix=("change weights in place: with torch.no_grad(): p -= lr * p.grad; or use torch.optim.SGD",),
            confirm=("compare a weight before and after a pass of the loop: it is the same",),
        )


class OutputNotUsed(Rule):
    """A part that runs in every step, and whose result goes nowhere that is trained."""

    fault = "output_not_used"
    category = "graph-wiring"
    finds = "A trainable part that runs in every step but gets no gradient: nothing that is trained uses its result."
    evidence = (
        "which parameters get gradients",
        "modules that run",
        "losses that are computed, and what backward is given",
        "course of the loss",
    )
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 0

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if min(case.deep_steps, case.order.backwards) < STEPS or case.updates < LONG:
            return
        for network in case.trained():
            ran = case.ran(network)
            entries = [entry for entry in _trainable(case, network) if not entry.parameter.tied_to]
            silent = [entry for entry in entries if entry.gradient < 0 and self._runs(entry, ran)]
            if not silent or not any(entry.alive for entry in entries):
                continue
            place = common([entry.parameter.module for entry in silent])
            overwritten = self._overwritten(case)
            if overwritten is not None:
                yield self._say(case, network, place, silent, overwritten)
                continue
            inside = [e for e in entries if e.parameter.module == place or e.parameter.module.startswith(f"{place}.")]
            if not place or len(inside) != len(silent):
                continue  # not one part, or some of it is trained
            left = self._left_out(case)
            if left is None and not self._stuck(case):
                continue  # something that is not needed: nobody is harmed
            yield self._say(case, network, place, silent, left)

    @staticmethod
    def _runs(entry: Entry, ran: dict[str, int]) -> bool:
        module = entry.parameter.module
        return module in ran or any(
            path.startswith(f"{module}.") or module.startswith(f"{path}.") for path in ran if path
        )

    @staticmethod
    def _stuck(case: Case) -> bool:
        """Whether the loss stays where guessing is."""
        trend, chance = case.loss.trend(), case.chance_loss()
        return trend is not None and chance is not None and trend.end > 0.95 * chance

    @staticmethod
    def _left_out(case: Case) -> LossSite | None:
        """A loss that is computed in each step, while another one alone is what backward is given."""
        given = {step: losses[0] for step, losses in case.first_losses if len(losses) == 1}
        sites = [site for site in case.losses if site.first.get("grad", True)]
        alone = [site for site in sites if _equal(site, given)]
        others = [
            site for site in sites if site not in alone and sum(s in given for s, _ in site.first_values) >= STEPS
        ]
        return others[0] if alone and len(others) == 1 else None

    @staticmethod
    def _overwritten(case: Case) -> LossSite | None:
        """A line that computes several losses in a step, of which backward is given the last one alone."""
        given = {step: losses[0] for step, losses in case.first_losses if len(losses) == 1}
        for site in case.losses:
            values: dict[int, list[float]] = {}
            for step, value in site.first_values:
                values.setdefault(step, []).append(value)
            several = [(found, given[step]) for step, found in values.items() if step in given and len(found) > 1]
            if len(several) >= STEPS and all(math.isclose(f[-1], last, rel_tol=1e-6) for f, last in several):
                return site
        return None

    def _say(self, case: Case, network: str, place: str, silent: list[Entry], left: LossSite | None) -> Finding:
        trend = case.loss.trend()
        if left is not None and len(left.first_values) > len({step for step, _ in left.first_values}):
            because = (
                f"{left.function}{at(left.source)} is computed several times in each step, and backward is given the"
                " last of these losses alone: each one overwrites the one before instead of being added to it"
            )
            fix = f"add the losses up: loss = loss + {left.function}(…)"
        elif left is not None:
            because = (
                f"{left.function}{at(left.source)} is computed in each step, but it is not part of what backward is"
                " given: that loss is never used"
            )
            fix = f"add that loss to the one that backward is called on: loss = loss + {left.function}(…)"
        else:
            because = "what it returns is thrown away, and the loss has not left what guessing gives" + (
                f" ({number(trend.end)})" if trend is not None else ""
            )
            fix = f"use what {place} returns; or leave it out, if it is not needed"
        return self.finding(
            f"{called(place)} runs, but nothing that is trained uses its output",
            confidence=0.87,
            since_step=0,
            where=where(
                (left.source if left is not None else None) or case.source_of(network, place),
                module=place,
                parameter=silent[0].name,
                network=network,
            ),
            why=f"{plural(len(silent), 'parameter')} of {called(place)} ({some([entry.name for entry in silent])})"
            f" never get a gradient in {plural(case.deep_steps, 'observed step')}, although it runs, and the rest of"
            f" {network} is trained: {because}",
            facts=[
                ("parameters without a gradient", len(silent)),
                ("values in them", sum(entry.parameter.size for entry in silent)),
                ("observed steps", case.deep_steps),
            ],
            fix=(fix,),
            confirm=(f"print({silent[0].name}.grad): it is None after backward",),
        )


def _equal(site: LossSite, given: dict[int, float]) -> bool:
    """Whether the value of a loss function is what backward was given, in every step that tells."""
    both = [(value, given[step]) for step, value in site.first_values if step in given]
    return len(both) >= STEPS and all(math.isclose(a, b, rel_tol=1e-6) for a, b in both)
