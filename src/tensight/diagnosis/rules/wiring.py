"""Parts of the network that are not connected, registered or trained."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.branches import cut_branch
from tensight.diagnosis.words import at, called, number, plural, some, where
from tensight.records import Event, Finding, Part, Source

STEPS = 4  # observed steps before one says never
GUESSING = 0.8  # of the loss of guessing: who stays above it has learnt hardly anything


def common(paths: Sequence[str]) -> str:
    """The module that holds all of these.

    >>> common(["encoder.0", "encoder.2"]), common(["head"]), common(["a.b", "c"])
    ('encoder', 'head', '')
    """
    pieces = [path.split(".") for path in paths]
    shared = []
    for level in zip(*pieces):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)


def size_of(entries: Iterable[Entry]) -> int:
    return sum(entry.parameter.size for entry in entries)


def fresh(case: Case, entry: Entry) -> bool:
    """Whether a weight looks as torch's layers make it: spread evenly within 1 / sqrt(fan-in), nothing beyond."""
    for kept in case.deep():  # a student begins when its teacher is trained
        stats = kept.weight_before(entry) or kept.weight(entry)
        if (
            stats is not None
            and not stats.bad
            and stats.count >= 32
            and stats.min is not None
            and stats.max is not None
        ):
            bound = 1 / max(1, entry.fan_in) ** 0.5
            inside = max(abs(stats.min), abs(stats.max)) <= bound * 1.0001
            return bool(inside and abs((stats.std or 0.0) / bound - 3**-0.5) < 0.1)
    return False


def _bias_is_zero(case: Case, network: str, layer: Entry) -> bool:
    """Whether the bias of a layer is zero everywhere: set so by the script, and by no training."""
    for entry in case.ledger.of(network):
        if entry.parameter.module == layer.parameter.module and entry.name.rpartition(".")[2] == "bias":
            seen = [kept.weight_before(entry) or kept.weight(entry) for kept in case.deep()]
            known = [stats for stats in seen if stats is not None]
            return bool(known) and all(stats.zero == stats.count >= 4 for stats in known)
    return False


def _trained_steps(case: Case, part: Part | None) -> int:
    return case.order.optimizer(part.name).steps if part is not None else 0


class UnregisteredParameters(Rule):
    """Layers that compute and get gradients, but that no parameters() call can see."""

    fault = "unregistered_parameters"
    category = "graph-wiring"
    finds = "Layers kept where the model does not see them (a plain list or dict): used in forward, never updated."
    evidence = ("parameters found outside named_parameters()", "who holds them", "their gradients")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = self._made_anew(case)
        for name in case.networks:
            loose = [
                entry
                for entry in case.ledger.of(name)
                if not entry.parameter.registered
                and entry.parameter.trainable
                and not entry.held
                and entry.first_move < 0
            ]
            lives = any(entry.alive for entry in loose) or _asked_alone(case.optimizer_of(name))
            if loose and lives and case.order.updates >= 2:
                findings.append(self._say(case, name, loose))
        return findings

    def _made_anew(self, case: Case) -> list[Finding]:
        """Layers that a line makes in every step, so that no optimizer can ever know them."""
        lines: dict[Source, list[tuple[int, Event]]] = {}
        for step, event in case.noted.of("stranger"):
            if event.source is not None:
                lines.setdefault(event.source, []).append((step, event))
        for source, seen in lines.items():
            if len({step for step, _ in seen}) < 3:
                continue
            kind, size = seen[0][1].values.get("type"), seen[0][1].values.get("size")
            return [
                self.finding(
                    f"a {kind} layer is made anew in every forward pass",
                    confidence=0.93,
                    since_step=0,
                    where=where(source, op=str(kind), network=seen[0][1].part),
                    why=f"the line {source.file}:{source.line} makes a new {kind} layer ({size} values) in each step:"
                    f" its"
                    " parameters get gradients, but are not registered in the model and in no optimizer, and are random"
                    " again in the next step, so the layer never learns and the rest has to learn against noise",
                    facts=[("steps in which it was made", len(seen)), ("values in it", size)],
                    fix=("make the layer once, in __init__: self.layer = nn.Linear(…), and call it in forward",),
                )
            ]
        return []

    def _say(self, case: Case, network: str, loose: list[Entry]) -> Finding:
        place = common([entry.parameter.module for entry in loose])
        held = place.rpartition(".")[2]
        if held.isdigit():
            place = place.rpartition(".")[0]
        size = sum(entry.parameter.size for entry in loose)
        source = self._source(case, network, loose, place)
        alive = any(entry.alive for entry in loose)
        many = "nn.ModuleList (or nn.ModuleDict, nn.ParameterList)" if alive else "nn.CellList (or nn.CellDict)"
        return self.finding(
            f"{called(place)} is not registered: its parameters are never trained",
            confidence=0.96,
            since_step=0,
            where=where(source, module=place, parameter=loose[0].name, network=network),
            why=f"{plural(len(loose), 'parameter')} of {called(place)} ({some([e.name for e in loose])};"
            f" {number(size)} values) take part in forward{' and get gradients' if alive else ''}, but are not"
            " registered in the model: layers in a plain Python list or dict are not in"
            f" {'model.parameters()' if alive else 'net.trainable_params()'}, so no optimizer updates them"
            f"{' and their gradients pile up' if alive else ''}",
            facts=[
                ("parameters that are not registered", len(loose)),
                ("values in them", size),
                ("updates so far", case.updates),
            ],
            fix=(f"use {many} for {called(place)} instead of a plain list",),
            confirm=("print the parameters of the model: these are missing",),
        )

    @staticmethod
    def _source(case: Case, network: str, loose: list[Entry], place: str) -> Source | None:
        for entry in loose:
            module = case.module(network, entry.parameter.module)
            if module is not None and module.source is not None:
                return module.source
        for entry in loose:
            for tensor in (entry.weight, entry.gradient):
                info = case.tensors.get(tensor)
                if info is not None and info.source is not None:
                    return info.source
        if case.module(network, place):
            return case.source_of(network, place)
        seen = [
            (info.node.count("."), info.source)
            for info in case.tensors.values()
            if info.kind == "output" and info.network == network and info.node.startswith(f"{place}.") and info.source
        ]
        return min(seen, key=lambda one: one[0])[1] if seen else None  # the line that calls one of them


def _asked_alone(part: Part | None) -> bool:
    """Whether gradients are taken of an optimizer's own parameters alone: others have none, however they are used."""
    return part is not None and part.settings.get("absent_gradients") == "zeros"


def _left_behind(part: Part | None) -> set[str]:
    """Names of tensors in no model that an optimizer holds, where the framework names them.

    MindSpore takes gradients of what it is asked for alone: a layer that has replaced one of the same name gets none.
    """
    names = part.settings.get("unknown_names") if part is not None else None
    return set(names.split(", ")) if isinstance(names, str) else set()


class StaleOptimizer(Rule):
    """An optimizer that updates tensors the model no longer has."""

    fault = "optimizer_holds_stale_parameters"
    category = "optimizer-update"
    finds = (
        "An optimizer built before (part of) the model was replaced: it updates the old parameters, not the new ones."
    )
    evidence = (
        "parameters an optimizer holds that are in no model",
        "parameters with gradients that no optimizer holds",
    )
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "missing_zero_grad"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.order.updates < 3:
            return []
        findings = []
        for network in case.networks:
            entries = [e for e in case.ledger.of(network) if e.parameter.trainable and e.parameter.registered]
            own = case.optimizer_of(network)
            left = _left_behind(own)
            homeless = [e for e in entries if not e.held and (e.alive or e.name in left) and e.first_move < 0]
            if not homeless:
                continue
            copied = self._of_a_copy(case, network, entries) if own is None and len(homeless) == len(entries) else None
            if copied is not None:
                findings.append(self._say_copy(case, network, homeless, *copied))
                continue
            stale = [part for part in case.optimizers() if part.unknown_parameters]
            # Each parameter that was replaced has left its old self behind in the optimizer.
            if own is not None and own.unknown_parameters >= 0.5 * len(homeless):
                findings.append(self._say(case, network, homeless, own))
            elif own is None and stale and stale[0].unknown_parameters >= len(homeless) == len(entries):
                findings.append(self._say(case, network, homeless, stale[0]))
        return findings

    @staticmethod
    def _of_a_copy(case: Case, network: str, entries: list[Entry]) -> tuple[Part, str] | None:
        """An optimizer, and a network that only it knows, with the very same parameters and without a gradient."""
        shapes = {entry.name: entry.parameter.shape for entry in entries}
        for other in case.trained():
            twin = [entry for entry in case.ledger.of(other) if entry.held]
            same = {entry.name: entry.parameter.shape for entry in twin} == shapes
            part = case.optimizer_of(other)
            if other != network and same and part is not None and not any(entry.alive for entry in twin):
                return part, other
        return None

    def _say_copy(self, case: Case, network: str, homeless: list[Entry], part: Part, other: str) -> Finding:
        return self.finding(
            f"{part.type} holds the parameters of {other}, not of {network}",
            confidence=0.94,
            since_step=0,
            where=where(part.source, module="", parameter=homeless[0].name, network=network),
            why=f"the optimizer {part.type}{at(part.source)} holds {plural(len(homeless), 'parameter')} of {other},"
            f" which is"
            f" never called, and does not hold those of {network}, which runs and gets the gradients: {other} is a copy"
            f" (deepcopy) of {network}, and the optimizer was built on the wrong one, so no weight has moved",
            facts=[
                ("parameters with gradients that no optimizer holds", len(homeless)),
                ("updates so far", case.updates),
            ],
            fix=(f"build the optimizer on the network that is trained: {network}.parameters(){at(part.source)}",),
        )

    def _say(self, case: Case, network: str, homeless: list[Entry], part: Part) -> Finding:
        place = common([entry.parameter.module for entry in homeless])
        source = case.source_of(network, place)
        return self.finding(
            f"{part.type} does not hold the parameters of {called(place)}",
            confidence=0.94,
            since_step=0,
            where=where(source or part.source, module=place, parameter=homeless[0].name, network=network),
            why=f"the optimizer {part.type}{at(part.source)} holds {plural(part.unknown_parameters, 'tensor')}"
            f" that are in no model"
            f" any more (stale), and does not hold {plural(len(homeless), 'parameter')} of {called(place)}"
            f" ({some([e.name for e in homeless])}) which"
            f" {'get gradients but ' if homeless[0].alive else ''}have not moved in"
            f" {plural(case.order.optimizer(part.name).steps, 'update')}: {called(place)} was replaced after the"
            f" optimizer was"
            " built",
            facts=[
                ("tensors in the optimizer that are in no model", part.unknown_parameters),
                ("parameters that run and that no optimizer holds", len(homeless)),
                ("updates so far", case.updates),
            ],
            fix=(
                "build the optimizer after the model is final, or add the new parameters with"
                " optimizer.add_param_group",
            ),
            confirm=(f"compare {homeless[0].name} before and after a step: it is the same",),
        )


class DetachBreaksGraph(Rule):
    """The front part of a network that runs but never gets a gradient."""

    fault = "detach_breaks_graph"
    category = "graph-wiring"
    finds = (
        "A part of the network that runs before the trained rest but never gets a gradient: the graph is cut after it."
    )
    evidence = ("which parameters get gradients", "order in which modules run", "whether their optimizer steps")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "vanishing_gradient", "output_not_used"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.deep_steps < STEPS or case.order.backwards < STEPS:
            return []
        findings = []
        for network in case.trained():
            part = case.optimizer_of(network)
            if _trained_steps(case, part) < STEPS:
                continue
            cut = self._cut_inside(case, network) or self._cut_off(case, network) or self._blind(case, network)
            if cut:
                findings.append(self._say(case, network, *cut))
        return findings

    @staticmethod
    def _running(case: Case, network: str) -> list[tuple[int, Entry]]:
        ran = case.ran(network)
        return sorted(
            (
                (ran[entry.parameter.module], entry)
                for entry in case.ledger.of(network)
                if entry.parameter.module in ran
                and entry.held
                and entry.parameter.trainable
                and not entry.parameter.tied_to
            ),
            key=lambda pair: pair[0],
        )

    def _cut_inside(self, case: Case, network: str) -> tuple[list[Entry], str] | None:
        """All that ran before some point has no gradient, all after it has."""
        running = self._running(case, network)
        without = [(order, entry) for order, entry in running if entry.gradient < 0]
        having = [(order, entry) for order, entry in running if entry.alive]
        part = case.optimizer_of(network)
        zeros = part is not None and part.settings.get("absent_gradients") == "zeros"
        if zeros and having and not self._silenced(case, network, having[0][0]):
            without = [pair for pair in running if not pair[1].alive and pair[1].first_move < 0]
        if not without or not having:
            return None
        if max(order for order, _ in without) >= min(order for order, _ in having):
            return self._cut_beside(case, network, [entry for _, entry in running], having[0][1])
        return [entry for _, entry in without], having[0][1].parameter.module

    @staticmethod
    def _cut_beside(case: Case, network: str, running: list[Entry], trained: Entry) -> tuple[list[Entry], str] | None:
        """A branch of its own, as torch makes it at random, that is cut off from what all branches lead to."""
        place = common([entry.parameter.module for entry in running if entry.gradient < 0])
        branch = cut_branch(case, network, place, running)
        layers = [entry for entry in branch if entry.layer and entry.matrix]
        if not layers or not all(fresh(case, entry) for entry in layers):
            return None
        return branch, trained.parameter.module

    @staticmethod
    def _silenced(case: Case, network: str, before: int) -> bool:
        """Whether a module ahead of this place gives zeros alone: then gradients of zero are its doing."""
        return any(
            info.network == network and one.order <= before and one.stats.min == one.stats.max == 0
            for kept in case.beginning
            for one, info in kept.forward()
        )

    def _cut_off(self, case: Case, network: str) -> tuple[list[Entry], str] | None:
        """A whole network whose own optimizer steps without any gradient, while another network has them."""
        running = [entry for _, entry in self._running(case, network)]
        absent = all(entry.gradient < 0 for entry in running) or self._all_zero(case, network, running)
        if not running or not absent:
            return None
        others = [other for other in case.trained() if other != network]
        fed = [other for other in others if any(entry.alive for entry in case.ledger.of(other))]
        return (running, fed[0]) if fed else None

    def _all_zero(self, case: Case, network: str, running: list[Entry]) -> bool:
        """Where absent gradients come as zeros: no gradient ever arrived at what the network gave, which is no zero."""
        if not _asked_alone(case.optimizer_of(network)) or self._silenced(case, network, sys.maxsize):
            return False
        arrived = any(info.network == network for kept in case.beginning for _, info in kept.of_kind("output_gradient"))
        return not arrived and not any(entry.alive or entry.first_move >= 0 for entry in running)

    @staticmethod
    def _blind(case: Case, network: str) -> tuple[list[Entry], str] | None:
        """A network in the optimizer that is only ever called without gradients, in every step that trains another."""
        entries = [entry for entry in case.ledger.of(network) if entry.held and entry.parameter.trainable]
        fed = [
            other
            for other in case.trained()
            if other != network and any(entry.alive for entry in case.ledger.of(other))
        ]
        if not entries or not fed or any(entry.gradient >= 0 for entry in entries):
            return None
        steps = [kept for kept in case.deep() if kept.record.losses]
        blind = 0
        for kept in steps:
            calls = [event for event in kept.record.events if event.kind == "forward" and event.part == network]
            if any(event.values.get("grad", True) for event in calls):
                return None
            blind += bool(calls)
        return (entries, fed[0]) if blind >= STEPS and blind >= 0.8 * len(steps) else None

    def _say(self, case: Case, network: str, cut: list[Entry], after: str) -> Finding:
        place = common([entry.parameter.module for entry in cut])
        source, op = self._line(case, network, place, after)
        names = some([entry.name for entry in cut])
        module = place or cut[0].parameter.module
        whole = after in case.networks and after != network
        front = network if whole else called(module)
        modules = list(dict.fromkeys(called(entry.parameter.module) for entry in cut))
        holders = network if whole else called(place) if place else some(modules)
        last = front if whole or place else modules[-1]
        return self.finding(
            f"no gradient reaches {front}",
            confidence=0.92,
            since_step=case.beginning[0].step if case.beginning else 0,
            where=where(
                source or case.source_of(network, module),
                module=module,
                parameter=cut[0].name,
                op=op,
                network=network,
            ),
            why=f"{plural(len(cut), 'trainable parameter')} of {holders} ({names}) never receive a gradient in"
            f" {plural(case.deep_steps, 'observed step')}, although {front} runs in forward and"
            f" {called(after)} {'behind' if self._behind(case, network, cut, after) else 'beside'} it"
            " is trained: the graph is cut between them, as detach(), .data, torch.no_grad() or a conversion to"
            " numpy does",
            facts=[
                ("parameters without a gradient", len(cut)),
                ("values in them", sum(entry.parameter.size for entry in cut)),
                ("observed steps", case.deep_steps),
            ],
            fix=(
                f"remove the detach() (or .data, no_grad) between {last} and {called(after)}",
                f"or, if it is meant, freeze it: {network if whole else module or 'model'}.requires_grad_(False), and"
                " leave it out of the optimizer",
            ),
            confirm=(f"print({cut[0].name}.grad): it is None after backward",),
        )

    @staticmethod
    def _behind(case: Case, network: str, cut: list[Entry], after: str) -> bool:
        ran = case.ran(network)
        last = max((ran.get(entry.parameter.module, -1) for entry in cut), default=-1)
        return after not in ran or ran[after] > last

    @staticmethod
    def _line(case: Case, network: str, front: str, after: str) -> tuple[Source | None, str | None]:
        """The line that cuts the graph: one in the forward of what holds both sides, or around the call of the"
        " front."""
        blind = [
            event
            for kept in case.beginning
            for event in kept.record.events
            if event.kind == "forward" and event.part == network and event.values.get("grad") is False
        ]
        if blind:
            return blind[0].source, "no_grad"
        cuts = [event for _, event in case.noted.of("cut") if event.values.get("function") != "item"]
        whole = after in case.networks and after != network
        holder = common([front, after]) if not whole else None
        for event in cuts:
            module = event.values.get("module")
            inside = isinstance(module, str) and event.part == network
            if holder is not None and inside and (module in (holder, front) or str(module).startswith(f"{front}.")):
                return event.source, str(event.values.get("function"))
        for event in cuts:
            if event.values.get("module") is None and whole:
                return event.source, str(event.values.get("function"))
        part = case.optimizer_of(network)
        if whole and part is not None:  # the call that its own update follows, not those for other networks
            for kept in case.beginning:
                called_at: Source | None = None
                for event in kept.record.events:
                    if event.kind == "forward" and event.part == network:
                        called_at = event.source
                    elif event.kind == "optimizer_step" and event.part == part.name and called_at is not None:
                        return called_at, None
        return None, None


class FrozenParameters(Rule):
    """An optimizer that is given parameters which may not change."""

    fault = "frozen_parameters"
    category = "graph-wiring"
    finds = "Parameters with requires_grad=False in the optimizer, while nothing (or too little) else learns."
    evidence = ("requires_grad of what optimizers hold", "course of the loss")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.order.updates < 5:
            return []
        findings = []
        for network in case.trained():
            held = [entry for entry in case.ledger.of(network) if entry.held]
            frozen = [entry for entry in held if not entry.parameter.trainable]
            if not frozen:
                left_out = self._left_out(case, network) if final and case.steps >= 50 else []
                if left_out:
                    left_out = [e for e in case.ledger.of(network) if not e.parameter.trainable and not e.held]
                    count = len(held) + len(left_out)
                    share = size_of(left_out) / size_of([*held, *left_out])
                    findings.append(self._say(case, network, left_out, count, share, held_too=False))
                continue
            share = size_of(frozen) / max(1, size_of(held))
            trend = case.loss.trend()
            stuck = final and case.steps >= 50 and share > 0.5 and trend is not None and trend.flat(0.02)
            if len(frozen) == len(held) or stuck or self._untrained(case, network, frozen):
                findings.append(self._say(case, network, frozen, len(held), share))
        return findings

    @staticmethod
    def _untrained(case: Case, network: str, frozen: list[Entry]) -> bool:
        """Layers that stand as they were made at random, in the optimizer, with trained layers behind them."""
        layers = [entry for entry in frozen if entry.layer and entry.matrix and entry.first_move < 0]
        moving = [entry for entry in case.ledger.of(network) if entry.held and entry.parameter.trainable]
        if not layers or not moving or case.order.updates < 20:
            return False
        ran = case.ran(network)
        return all(
            entry.parameter.module in ran and (fresh(case, entry) or _bias_is_zero(case, network, entry))
            for entry in layers
        )

    @staticmethod
    def _left_out(case: Case, network: str) -> list[Entry]:
        """Most of a network, frozen as it was made at random and in no optimizer, while the rest learns nothing."""
        layers = [entry for entry in case.layers(network) if entry.matrix]
        frozen = [e for e in layers if not e.parameter.trainable and not e.held and e.first_move < 0]
        trend = case.loss.trend()
        if not frozen or trend is None or not all(fresh(case, entry) for entry in frozen):
            return []
        guessing = case.chance_loss()
        # against that a loss is measured only where it begins near it: a sum over samples is larger by itself
        like = guessing is not None and trend.begin < guessing / GUESSING
        if not trend.flat(0.02) and not (like and trend.end > GUESSING * (guessing or 0.0)):
            return []
        return frozen if size_of(frozen) > 0.5 * size_of(layers) else []

    def _say(
        self, case: Case, network: str, frozen: list[Entry], held: int, share: float, *, held_too: bool = True
    ) -> Finding:
        everything = len(frozen) == held
        place = common([entry.parameter.module for entry in frozen])
        return self.finding(
            f"{'all' if everything else len(frozen)} parameters of {called(place)} are frozen",
            confidence=0.95 if everything else 0.75,
            since_step=min(entry.since for entry in frozen),  # a student begins when its teacher is trained
            where=where(case.source_of(network, place), module=place, parameter=frozen[0].name, network=network),
            why=f"{len(frozen)} of {held} parameters{' in the optimizer' if held_too else ''}"
            f" ({some([entry.name for entry in frozen])}; {number(share * 100)} % of all values) have"
            " requires_grad=False: they get no gradient and never change"
            + ("" if everything else ", and what is left does not bring the loss down"),
            facts=[("frozen parameters", len(frozen)), ("parameters in the optimizer", held)],
            fix=("set requires_grad_(True) on what is to be trained before the optimizer is built",),
        )
