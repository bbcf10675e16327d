"""Weights that start where they cannot learn."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import number, plural, some, where
from tensight.records import Finding, Stats

PARTED = 12  # updates after which units that are treated differently differ
STUCK = 3  # observed steps in which weight and gradient stay zero
GAIN = 4.0  # std times root of fan-in; 0.6 to 1.5 is usual, 4.5 is N(0, 1) with 20 inputs
TABLE = 3.0  # std of an embedding; torch makes 1
SATURATED = 0.9  # mean magnitude of a tanh output


def started(case: Case, entry: Entry) -> Stats | None:
    """The weight before the first update, when it was looked at."""
    for kept in case.beginning[:1]:
        if kept.step == 0:
            return kept.weight_before(entry)
    return None


def mean_at_start(case: Case, entry: Entry) -> float | None:
    """Mean magnitude of a weight before the first update."""
    stats = started(case, entry)
    if stats is not None:
        return stats.abs_mean
    for kept in case.beginning[:1]:
        after = kept.weight(entry)
        if kept.step == 0 and after is not None and after.change is not None:
            return after.change.before_abs_mean
    return None


def _mean(case: Case, entry: Entry) -> float | None:
    """`mean_at_start`, of the weight itself or of the one it shares its values with."""
    other = case.ledger.get(entry.network, entry.parameter.tied_to) if entry.parameter.tied_to else None
    return mean_at_start(case, entry if other is None else other)


def _ended(kind: str, stats: Stats) -> bool:
    """Whether most values are at the ends of an activation's range."""
    if stats.bad or stats.abs_mean is None:
        return False
    if kind == "tanh":
        return stats.abs_mean > SATURATED
    mean, std = stats.mean or 0.0, stats.std or 0.0
    return bool((std * std + (mean - 0.5) ** 2) ** 0.5 > 0.5 * SATURATED)


class ZeroInit(Rule):
    """Layers that start at zero and get no gradient, so they stay there."""

    fault = "zero_init"
    category = "initialisation"
    finds = "Layers whose weights start at zero and get a gradient of exactly zero: they can never leave it."
    evidence = ("weights before the first update", "gradients of the first steps", "change of weights by the update")
    explains = frozenset({"dead_relu", "vanishing_gradient", "lr_too_low", "constant_init_symmetry", "constant_input"})
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        asleep = [entry for entry in case.ledger if not entry.alive and entry.zero_gradients and entry.first_move < 0]
        if not asleep:
            return self._in_a_row(case)
        steps = [kept for kept in case.deep() if kept.record.depth >= 1]
        if len(steps) < STUCK and not (final and steps):
            return []
        findings = []
        # what chooses between modules that are copies of each other has no slope: the copies are the cause
        copies = {event.part for _, event in case.noted.of("alike") if event.values.get("what") == "modules"}
        for network in case.trained():
            stuck = [entry for entry in case.layers(network) if entry.held and self._stuck(entry, steps)]
            if stuck and network not in copies:
                findings.append(self._say(case, network, stuck, len(steps)))
        return findings

    def _in_a_row(self, case: Case) -> list[Finding]:
        """Most layers start at zero, at least one behind another, and wake up by their biases alone."""
        if case.deep_steps < STUCK or not case.beginning or case.beginning[0].step != 0:
            return []
        findings = []
        for network in case.trained():
            layers = [entry for entry in case.layers(network) if entry.held]
            before = [case.beginning[0].weight_before(entry) for entry in layers]
            zero = [entry for entry, stats in zip(layers, before) if stats is not None and stats.zero == stats.count]
            if len(zero) >= 2 and 2 * len(zero) > len(layers) and (zero[0] is layers[0] or self._cut(case, zero)):
                findings.append(self._say_in_a_row(case, network, zero, len(layers)))
        return findings

    @staticmethod
    def _cut(case: Case, zero: list[Entry]) -> bool:
        """Whether a layer of zeros stands behind another: then the first gradient does not pass back to it."""
        gradients = [case.beginning[0].gradient(entry) for entry in zero]
        return any(stats is not None and stats.zero == stats.count for stats in gradients)

    def _say_in_a_row(self, case: Case, network: str, zero: list[Entry], layers: int) -> Finding:
        first, names = zero[0], some([entry.name for entry in zero])
        return self.finding(
            f"{names} start at zero",
            confidence=0.9,
            since_step=0,
            where=case.place_of(network, first),
            why=f"{len(zero)} of {layers} weight matrices were initialised to zero everywhere ({names}): at first"
            " nothing of the input passes through them and no gradient passes back, and only biases let them wake up,"
            " one layer after the other",
            facts=[("weights that are zero everywhere", len(zero)), ("weight matrices", layers)],
            fix=("keep the default initialisation of the layers; only biases may start at zero",),
            since="since the weights were created",
        )

    @staticmethod
    def _stuck(entry: Entry, steps: list[Kept]) -> bool:
        if entry.alive or entry.first_move >= 0:
            return False
        seen = 0
        for kept in steps:
            weight, gradient = kept.weight(entry), kept.gradient(entry)
            if weight is None:
                continue
            if weight.zero < weight.count or gradient is None or gradient.zero < gradient.count:
                return False
            seen += 1
        return seen > 0

    def _say(self, case: Case, network: str, stuck: list[Entry], steps: int) -> Finding:
        first = stuck[0]
        layers = len(case.layers(network))
        names = [entry.name for entry in stuck]
        return self.finding(
            f"{some(names)} {'starts' if len(names) == 1 else 'start'} at zero and cannot learn",
            confidence=0.95 if len(stuck) > 1 else 0.85,
            since_step=first.since,
            where=case.place_of(network, first),
            why=f"{len(stuck)} of {layers} weight matrices were initialised to zero everywhere ({some(names)}):"
            f" their outputs"
            f" are zero, so the gradient of each weight is exactly zero as well, and in"
            f" {plural(steps, 'observed step')} none"
            " of them has moved",
            facts=[
                ("weights that are zero everywhere", len(stuck)),
                ("their gradients, largest magnitude", 0.0),
                ("observed steps without a change", steps),
            ],
            fix=(
                "keep the default initialisation of the layers, or use nn.init.kaiming_normal_ / xavier_uniform_ for"
                " weights; only biases (and the last layer of a residual branch) may start at zero",
            ),
            confirm=("initialise one of these layers with small random numbers: its gradient is no longer zero",),
            since="since the weights were created",
        )


class ConstantInit(Rule):
    """Layers in a row that start with one and the same number everywhere."""

    fault = "constant_init_symmetry"
    category = "initialisation"
    finds = (
        "Two or more layers in a row whose weights all start at one same number: their units stay copies of each other."
    )
    evidence = (
        "smallest and largest value of each weight before the first update",
        "rows of weights, and modules side by side, that are the same after many updates",
    )
    explains = frozenset(
        {"dead_relu", "vanishing_gradient", "exploding_activation", "exploding_gradient", "lr_too_low"}
    )
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = self._alike(case)
        if findings:
            return findings
        for network in case.trained():
            layers = [entry for entry in case.layers(network) if entry.held and entry.matrix]
            same = [self._constant(case, entry) for entry in layers]
            for at in range(len(layers) - 1):
                # The units of a layer stay equal only if the next layer treats them alike.
                if same[at] and same[at + 1] and layers[at].parameter.shape[0] >= 2:
                    findings.append(self._say(case, network, layers, at, sum(same)))
                    break
        return findings

    def _alike(self, case: Case) -> list[Finding]:
        """Rows of a parameter, or modules side by side, that are still copies of each other after many updates."""
        if case.order.updates < PARTED or any(fault in case.findings_of for fault in NONFINITE):
            return []
        found = []
        for _, event in case.noted.of("alike")[:1]:
            values = event.values
            parts = str(values.get("what"))
            rows = parts in ("rows", "columns")
            if rows and "zero_init" in case.findings_of:
                continue
            module, name, count = str(values.get("module") or ""), str(values.get("name")), values.get("count")
            entry = case.ledger.get(event.part, name) if rows else self._inside(case, event.part, name)
            if entry is None or not entry.held:
                continue
            start = started(case, entry)
            begun = f"constant, {number(start.min)}, " if start is not None and start.min == start.max else "the same "
            what = f"{count} {parts} of {name}" if rows else f"the {count} modules of {module}"
            found.append(
                self.finding(
                    f"{what} start identical and stay so",
                    confidence=0.93,
                    since_step=0,
                    where=where(
                        case.source_of(event.part, module), module=module, parameter=entry.name, network=event.part
                    ),
                    why=f"after {values.get('updates')} updates {what} still hold the same values and get the same"
                    f" gradients: they were initialised {begun if rows else 'as copies of each other '}and everything"
                    " that follows treats them alike (symmetry), so they learn the same and count as a single one."
                    " Each unit, centre or expert must start at a place of its own",
                    facts=[("copies", count), ("updates after which they are the same", values.get("updates"))],
                    fix=("start each of them with random numbers of its own, or from different samples of the data",),
                    confirm=_confirmed(parts, name),
                    since="since the weights were created",
                )
            )
        return found

    @staticmethod
    def _inside(case: Case, network: str, path: str) -> Entry | None:
        return next((entry for entry in case.ledger.of(network) if entry.name.startswith(f"{path}.")), None)

    @staticmethod
    def _constant(case: Case, entry: Entry) -> bool:
        stats = started(case, entry)
        if stats is None or stats.bad or stats.count < 2 or stats.min is None:
            return False
        return stats.min == stats.max and stats.min != 0

    def _say(self, case: Case, network: str, layers: list[Entry], at: int, count: int) -> Finding:
        first, second = layers[at], layers[at + 1]
        stats = started(case, first)
        value = stats.min if stats is not None else None
        return self.finding(
            f"{first.name} and {second.name} start with the same number everywhere",
            confidence=0.9,
            since_step=0,
            where=case.place_of(network, first),
            why=f"every value of {first.name} was initialised to the constant {number(value)} and the next layer"
            f" is constant"
            f" too: all {first.parameter.shape[0]} units compute the same, get the same gradient and stay identical"
            " (symmetry), so the layer has the strength of a single unit",
            facts=[("smallest and largest weight at the start", value), ("constant weight matrices", count)],
            fix=(
                "use random initial weights: drop nn.init.constant_/ones_ for weights, or use nn.init.kaiming_normal_",
            ),
            since="since the weights were created",
        )


def _confirmed(parts: str, name: str) -> tuple[str, ...]:
    one = {"rows": f"{name}[0]", "columns": f"{name}[:, :1]"}.get(parts)
    return (f"print(({name} - {one}).abs().max()) after some updates: it is 0",) if one else ()


class HugeInit(Rule):
    """Initial weights so large that activations saturate or outputs are far too large."""

    fault = "huge_init"
    category = "initialisation"
    finds = (
        "Initial weights many times too large for their fan-in, with saturated activations or a loss far above chance."
    )
    evidence = (
        "spread of each weight before the first update against its fan-in",
        "saturation of tanh and sigmoid outputs, size of outputs, first loss against chance",
    )
    explains = (
        frozenset({"vanishing_gradient", "exploding_gradient", "exploding_activation", "dead_relu", "lr_too_high"})
        | NONFINITE
    )
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not case.beginning or case.beginning[0].step != 0:
            return []
        findings = []
        for network in case.trained():
            huge = []
            shared = [entry for entry in case.ledger.of(network) if entry.layer and entry.parameter.tied_to]
            for entry in (*case.layers(network), *shared):
                mean = _mean(case, entry)
                if mean is None or not entry.held or not (entry.matrix or self._saturates(case, entry)):
                    continue
                gain = 1.2533 * mean * entry.fan_in**0.5  # of a normal distribution with this mean magnitude
                if gain > GAIN and entry.fan_in >= 4:
                    huge.append((entry, gain))
            if huge:
                harm = self._harm(case, network)
                if harm:
                    findings.append(self._say(case, network, huge, harm))
            else:
                findings += self._tables(case, network)
        return findings

    def _tables(self, case: Case, network: str) -> list[Finding]:
        """Embeddings whose vectors are far longer than torch makes them, and a first loss far above guessing."""
        chance = case.chance_loss()
        if not chance or not case.loss.first > 5 * chance:
            return []
        tables = [e for e in case.ledger.of(network) if e.parameter.role == "embedding" and e.held]
        spreads = [(entry, 1.2533 * (_mean(case, entry) or 0.0)) for entry in tables]
        huge = [(entry, spread) for entry, spread in spreads if spread > TABLE]
        if not huge:
            return []
        entry, spread = max(huge, key=lambda pair: pair[1])
        module = entry.parameter.module
        return [
            self.finding(
                f"{entry.name} starts with vectors that are too large",
                confidence=0.9,
                since_step=0,
                where=where(case.source_of(network, module), module=module, parameter=entry.name, network=network),
                why=f"the initial weights of {some([one.name for one, _ in huge])} are huge: std about"
                f" {number(spread)}, where nn.Embedding starts with 1 and products of vectors need less; the first"
                f" loss is {number(case.loss.first)}, guessing gives {number(chance)}, and small steps cannot undo it",
                facts=[(f"std of {entry.name} before the first update", spread), ("first loss", case.loss.first)],
                fix=(f"initialise {entry.name} with a small std: nn.init.normal_(weight, std=0.1)",),
                since="since the weights were created",
            )
        ]

    @staticmethod
    def _saturates(case: Case, entry: Entry) -> bool:
        """A weight by another name, in a module that is written by hand: its own activations tell what it does."""
        near = [
            (one.stats, info.type.lower())
            for one, info in case.beginning[0].forward()
            if info.network == entry.network and info.node == entry.parameter.module and info.kind == "activation"
        ]
        at_the_end = [stats for stats, kind in near if kind in ("tanh", "sigmoid") and _ended(kind, stats)]
        return len(at_the_end) > 0.5 * len(near) > 0

    @staticmethod
    def _harm(case: Case, network: str) -> str:
        first = case.beginning[0]
        fed = max((abs(one.stats.max or 0.0) for one, _ in first.of_kind("input")), default=0.0)
        if fed > 1e3:
            return ""  # what it is fed is huge: that comes first
        for one, info in first.forward():
            kind = info.type.lower()
            if info.network != network or one.stats.abs_mean is None:
                continue
            if "tanh" in kind and one.stats.abs_mean > SATURATED:
                return (
                    f"{kind} outputs of {info.node or 'the model'} are saturated (mean magnitude"
                    f" {number(one.stats.abs_mean)} of 1)"
                )
            spread = one.stats.std or 0.0
            if kind == "sigmoid" and info.kind == "activation" and _ended(kind, one.stats) and one.stats.count > 16:
                return f"{kind} outputs of {info.node or 'the model'} are saturated (at the ends of their range)"
            if "sigmoid" in kind and spread > 0.45 and one.stats.count > 16:
                return f"{kind} outputs are saturated at 0 and 1 (std {number(spread)} of at most 0.5)"
        chance = case.chance_loss()
        if chance and case.loss.first > 5 * chance:
            return f"the first loss is {number(case.loss.first)}, guessing gives {number(chance)}"
        outputs = [one.stats.abs_mean or 0.0 for one, info in first.forward() if info.network == network]
        if outputs and outputs[-1] > 100 and case.diverged():
            return f"outputs have a mean magnitude of {number(outputs[-1])} in the first step"
        return ""

    def _say(self, case: Case, network: str, huge: list[tuple[Entry, float]], harm: str) -> Finding:
        entry, gain = max(huge, key=lambda pair: pair[1])
        mean = _mean(case, entry) or 0.0
        tied = f" ({entry.name} is {entry.parameter.tied_to}, a table that was made for another use)"
        return self.finding(
            f"{entry.name} starts with weights that are too large",
            confidence=0.92,
            since_step=0,
            where=case.place_of(network, entry),
            why=f"the initial weights of {some([one.name for one, _ in huge])} are huge: std about"
            f" {number(1.2533 * mean)} with"
            f" {entry.fan_in} inputs per unit enlarges the signal {number(gain)} times, where about 1 is"
            f" right{tied if entry.parameter.tied_to else ''}; {harm}",
            facts=[
                (f"std of {entry.name} before the first update", 1.2533 * mean),
                ("inputs per unit", entry.fan_in),
                ("usual std", (1 / entry.fan_in) ** 0.5),
                ("first loss", case.loss.first),
            ],
            fix=(
                f"initialise {entry.name} with std about {number((1 / entry.fan_in) ** 0.5)}: the default, or"
                " nn.init.xavier_normal_ / kaiming_normal_",
            ),
            since="since the weights were created",
        )
