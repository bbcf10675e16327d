"""Gradients and activations that explode or die on their way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept, abs_max
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at as in_line
from tensight.diagnosis.words import called, median, number, some, where
from tensight.records import Finding, Observation, TensorInfo

DEAD_STEPS = 3  # observed steps in a row without one active unit
NEAR = 20  # steps that a wild update may lie before the death it brought about
EXPLODED = 1e4  # gradient norm over weight norm before training has moved anything
AMPLIFIED = 1e3  # how much larger a module's output is than what came before it
TIME_STEPS = 8  # calls in a row that make a course over time
GROWN = 100.0  # how much larger the last of them is than the first
GROWING = 10.0  # the same, where training has come to nothing
FAR = 5.0  # of guessing: a first loss that such a state makes
PUSHED = 20.0  # gradient over weight that it makes
STUCK = 0.97  # of guessing: nothing was learnt
LONG = 60  # updates after which that is so
ABSURD = 100.0  # a first loss over that of guessing: no training was meant to begin there


def is_relu(info: TensorInfo) -> bool:
    """ReLU and its like that are flat on one side; leaky ones never die."""
    return info.type.lower().replace("_", "") in ("relu", "relu6", "threshold", "hardswish", "relusquared")


def shows_relu(kept: Kept) -> bool:
    return any(is_relu(info) for _, info in kept.forward())


class DeadRelu(Rule):
    """A whole layer of ReLUs that is zero for every input, with no gradient left to revive it."""

    fault = "dead_relu"
    category = "gradient-flow"
    finds = "A ReLU layer whose outputs are all zero for every sample, so nothing before it gets a gradient any more."
    evidence = ("share of zeros in ReLU outputs", "gradients of the weights before them", "update sizes, inputs")
    explains = frozenset(
        {"vanishing_gradient", "lr_too_low", "lr_too_high", "exploding_gradient", "labels_shuffled_against_inputs"}
    )
    symptom = True
    every = 5

    def __init__(self) -> None:
        self._since: dict[int, int] = {}

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        latest = next((kept for kept in reversed(case.latest(8)) if shows_relu(kept)), None)
        # what runs compiled shows its inside in a few steps only
        latest = latest or next((kept for kept in reversed(case.deep()) if shows_relu(kept)), None)
        if latest is None or case.trouble.first is not None:
            return
        steps: list[Kept] = []
        for at, (one, info) in enumerate(latest.forward()):
            if one.stats.zero < one.stats.count or not is_relu(info):
                continue
            if info.network not in case.networks:
                found = self._among_tensors(case, one, info)
                if found is None:
                    continue
                yield found
                return
            steps = steps or [kept for kept in case.deep() if kept.forward()]
            before = self._before(case, latest, at, info.network)
            if before is None or self._lives_again(case, latest.step, before):
                continue
            since = self._since_when(steps, one.tensor)
            last = not self._feeds_on(case, latest, at, info.network)
            if last and not self._silences(case, steps, info, since):
                continue
            # A narrow layer may be zero by chance in a few batches.
            enough = DEAD_STEPS if one.stats.count >= 64 else 3 * DEAD_STEPS
            if sum(kept.step >= since for kept in steps) < enough:
                continue
            yield self._say(case, steps, info, before, since, last)
            return

    def _among_tensors(self, case: Case, one: Observation, info: TensorInfo) -> Finding | None:
        """Of a network that is written out with plain tensors: there nobody knows which weight runs before which ReLU,
        but those that a dead one cuts off get gradients of zero, and the others do not.
        """
        steps = [kept for kept in case.deep() if kept.last(one.tensor) is not None and kept.of_kind("gradient")]
        since = self._since_when(steps, one.tensor) if steps else -1
        dead = [kept for kept in steps if kept.step >= since]
        if len(dead) < 3 * DEAD_STEPS:
            return None
        looked = [kept.of_kind("gradient") for kept in dead]
        cut_off = [{other.name for seen, other in found if seen.stats.zero == seen.stats.count} for found in looked]
        names = [other.name for _, other in looked[-1] if all(other.name in zero for zero in cut_off)]
        if not names or not self._loss_stays(case):
            return None
        return self.finding(
            f"all units of a {info.type} are dead",
            confidence=0.9,
            since_step=since,
            where=where(info.source, op="relu"),
            why=f"the {info.type} activation is zero for every unit and every sample since step {since}: it passes no"
            f" gradient, {some(names)} get gradients of exactly zero and the units never fire again (dead ReLU)",
            facts=[("share of zeros in the activation", 1.0), ("tensors with a gradient of zero", len(names))],
            fix=("start biases near 0, lower the learning rate, or use LeakyReLU or GELU",),
            confirm=("print (activation > 0).float().mean() after each ReLU",),
            since=f"dead in every observed step from {since} on",
        )

    @staticmethod
    def _loss_stays(case: Case) -> bool:
        """Whether there is a loss left to lower: an output that rests at zero may be the right answer."""
        return abs(case.loss.last) > 0.01 * abs(case.loss.first)

    @staticmethod
    def _since_when(steps: list[Kept], tensor: int) -> int:
        """The first step of the present run without one active unit."""
        since = steps[-1].step
        for kept in reversed(steps):
            stats = kept.last(tensor)
            if stats is None:
                continue
            if stats.zero < stats.count:
                break
            since = kept.step
        return since

    @staticmethod
    def _before(case: Case, kept: Kept, at: int, network: str) -> Entry | None:
        """The last layer that ran before an activation, if its gradient is zero everywhere."""
        layers = {entry.parameter.module: entry for entry in case.layers(network)}
        for _, info in reversed(kept.forward()[:at]):
            entry = layers.get(info.node) if info.network == network else None
            if entry is not None:
                gradient = kept.gradient(entry)
                return entry if gradient is not None and gradient.zero == gradient.count else None
        return None

    @staticmethod
    def _lives_again(case: Case, step: int, before: Entry) -> bool:
        """Whether a layer that was cut off has had a gradient since."""
        later = [kept.gradient(before) for kept in case.deep() if kept.step > step]
        return any(gradient is not None and gradient.zero < gradient.count for gradient in later)

    @staticmethod
    def _feeds_on(case: Case, kept: Kept, at: int, network: str) -> bool:
        """Whether another layer of the network runs after it: a ReLU inside a loss may rest at zero in peace."""
        layers = {entry.parameter.module for entry in case.layers(network)}
        here = kept.forward()[at][0]
        return any(
            info.network == network and info.node in layers and one.micro == here.micro
            for one, info in kept.forward()[at + 1 :]
        )

    @staticmethod
    def _silences(case: Case, steps: list[Kept], info: TensorInfo, since: int) -> bool:
        """Whether a ReLU at the end of a model leaves all of it without a gradient while there is a loss to lower."""
        if case.module(info.network, info.node) is None:
            return False
        dead = [kept for kept in steps if kept.step >= since]
        seen = 0
        for kept in dead:
            loss = kept.record.loss
            if loss is None or not abs(loss) > 0.01 * abs(case.loss.first):
                return False
            for entry in case.layers(info.network):
                gradient = kept.gradient(entry)
                if gradient is not None:
                    seen += 1
                    if gradient.zero < gradient.count:
                        return False
        return seen >= len(dead)

    def _say(self, case: Case, steps: list[Kept], info: TensorInfo, before: Entry, since: int, last: bool) -> Finding:
        dead = [
            other.name or other.type
            for one, other in steps[-1].forward()
            if is_relu(other) and one.stats.zero == one.stats.count
        ]
        lr = case.lr()
        alive = max((kept.step for kept in steps if kept.step < since and kept.last(info.id)), default=0)
        cause, thrown, fix = self._cause(case, since, alive)
        kinder = "use LeakyReLU or GELU"
        if not self._is_normalised(steps[-1], info, before):
            kinder += ", or a normalisation layer before the ReLU"
        fix = (*fix, kinder)
        if last:
            cause = (
                f"; it is the last thing the model does, so the output is 0 for every sample and no layer learns{cause}"
            )
            fix = ("leave out the activation after the last layer: a ReLU cannot give a value below zero", *fix)
        module = info.node if case.module(info.network, info.node) and info.node else before.parameter.module
        if not info.node or module == "":
            module = before.parameter.module
        return self.finding(
            f"all ReLU units after {before.parameter.module or before.name} are dead",
            confidence=0.9,
            since_step=min(since, thrown + 1) if thrown is not None else since,
            where=where(
                info.source or case.source_of(info.network, before.parameter.module),
                module=module,
                op="relu",
                parameter=before.name,
                network=info.network,
            ),
            why=f"the ReLU activation after {before.parameter.module} is zero for every unit and every sample"
            f" since step"
            f" {since}: it passes no gradient, {before.name} gets a gradient of exactly zero and the units never"
            f" fire again"
            f" (dead ReLU){cause}",
            facts=[
                ("share of zeros in the activation", 1.0),
                ("ReLU layers without one active unit", len(dead)),
                (f"gradient of {before.name}, largest magnitude", 0.0),
                ("learning rate", lr.last if lr else None),
            ],
            fix=fix,
            confirm=("print (activation > 0).float().mean() after each ReLU",),
            since=f"dead in every observed step from {since} on",
        )

    @staticmethod
    def _is_normalised(kept: Kept, relu: TensorInfo, before: Entry) -> bool:
        """Whether a normalisation stands between a layer and its activation: then none need be advised."""
        between: list[str] = []
        for _, info in kept.forward():
            if info.id == relu.id:
                break
            between = [] if info.node == before.parameter.module else [*between, info.type]
        return any("Norm" in kind for kind in between)

    @staticmethod
    def _cause(case: Case, since: int, alive: int) -> tuple[str, int | None, tuple[str, ...]]:
        """What threw the units out of reach: in words, the step of the update that did, and what to do.

        `alive` is the last step in which a unit was seen to fire: what came long before it did not kill them by itself.
        """
        largest = max(
            (abs_max(one.stats) for kept in case.beginning[:3] for one, _ in kept.of_kind("input")), default=0.0
        )
        wild = [(kept.step, ratio) for kept, _, ratio in case.updates_seen() if kept.step < since and ratio > 0.5]
        fix = []
        said = ""
        if wild:
            jump = max(ratio for _, ratio in wild)
            said += f"; an update before it changed weights by {number(jump)} times their own size"
            fix.append("lower the learning rate")
        if largest > 20:
            said += f"; inputs reach {number(largest)}, which makes the first gradients that large"
            fix.insert(0, "normalise the inputs: (x - mean) / std")
        return (
            said,
            next((step for step, _ in wild if step >= alive - NEAR), None),
            tuple(fix),
        )


class ExplodingSignal(Rule):
    """Activations or gradients that grow through the layers (or time steps) until training breaks."""

    fault = "exploding_gradient"
    category = "gradient-flow"
    finds = "Activations and gradients that grow through layers or time steps until an update breaks the weights."
    evidence = (
        "size of each module's output against what came before it",
        "gradient against weight of each layer, before training has moved much",
        "course of the loss",
    )
    also = MappingProxyType(
        {"exploding_activation": "`exp` between two modules makes huge, still finite values, and the loss is absurd."}
    )
    explains = frozenset({"lr_too_high", "exploding_activation", "dead_relu"}) | NONFINITE
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not case.beginning:
            return []
        broken = case.diverged() or case.trouble.first is not None
        chance = case.chance_loss()
        if not broken and not (chance and case.loss.first > ABSURD * chance):
            return self._thrown_off(case, chance)
        for network in case.trained():
            at_start = self._at_start(case, network)
            if at_start is not None:
                return [at_start]
            later = self._later(case, network) if broken else None
            if later is not None:
                return [later]
        return []

    def _thrown_off(self, case: Case, chance: float | None) -> list[Finding]:
        """A state that grows from time step to time step, less than breaks anything, where nothing is learnt after."""
        trend = case.loss.trend()
        if chance is None or trend is None or case.updates < LONG or trend.end < STUCK * chance:
            return []
        first = case.beginning[0]
        if case.loss.first < FAR * chance or first.step != 0:
            return []
        for network in case.trained():
            worst, ratio = self._worst_gradient(case, network, first)
            over_time = self._over_time(first, network, GROWING)
            if worst is not None and over_time is not None and ratio >= PUSHED:
                info, grows, calls = over_time
                entry = self._entry_of(case, network, info, worst)
                return [self._say(case, network, entry, info, first, ratio, grows, calls=calls)]
        return []

    def _at_start(self, case: Case, network: str) -> Finding | None:
        """Explodes before any update: the network's own doing, not the learning rate's."""
        first = case.beginning[0]
        if first.step != 0:
            return None
        worst, ratio = self._worst_gradient(case, network, first)
        fed = max((abs_max(one.stats) for one, _ in first.of_kind("input")), default=1.0)
        if worst is None or ratio < EXPLODED or fed > 1e3:
            return None
        module, info, grows = self._amplifier(first, network, max(fed, 1.0))
        if module is None or info is None or grows < AMPLIFIED:
            steady = self._staircase(case, network, first)
            over_time = self._over_time(first, network) if steady is None else None
            if steady is None and over_time is None:
                return None
            calls = 0
            if steady is not None:
                info, grows = steady
            elif over_time is not None:
                info, grows, calls = over_time
            assert info is not None
            entry = self._entry_of(case, network, info, worst)
            return self._say(case, network, entry, info, first, ratio, grows, steady=steady is not None, calls=calls)
        by_exp = self._by_exp(case, first, max(fed, 1.0), info)
        if by_exp is not None:
            return by_exp
        entry = self._entry_of(case, network, info, worst)
        return self._say(case, network, entry, info, first, ratio, grows)

    def _by_exp(self, case: Case, kept: Kept, fed: float, info: TensorInfo) -> Finding | None:
        """What a module was given may have grown between modules: then exp is to blame, not the module after it."""
        outputs = [abs_max(one.stats) for one, other in kept.forward() if other.id == info.id]
        for event in kept.record.events:
            values = event.values
            largest, given = values.get("largest"), values.get("given")
            if event.kind != "grown" or not isinstance(largest, float) or not isinstance(given, float):
                continue
            if event.part != info.network or largest < AMPLIFIED * fed:
                continue
            if not largest / AMPLIFIED <= max(outputs) <= AMPLIFIED * largest:
                continue  # the module grows by itself, or does not hand on what exp has made
            module = str(values.get("module") or "")
            return self.finding(
                f"exp makes values of {number(largest)}: activations explode",
                fault="exploding_activation",
                confidence=0.9,
                since_step=kept.step,
                where=where(event.source, module=module, op="exp", network=info.network),
                why=f"exp{in_line(event.source)} was given up to {number(given)} and returned up to {number(largest)};"
                f" no input of the network is above {number(fed)}. {called(info.node)}, which comes"
                f" after it, only hands that on, and the loss is {number(case.loss.first)} in the very first step"
                " (exploding activation and gradient)",
                facts=[
                    ("largest value given to exp", given),
                    ("largest value it returned", largest),
                    (f"largest output of {called(info.node)}", max(outputs)),
                    ("first loss", case.loss.first),
                ],
                fix=(
                    "bound what exp is given: clamp it (logvar.clamp(-10, 10)), use softplus, or begin with small"
                    " weights in the layer before",
                    "for a log-variance the standard deviation is exp(0.5 * logvar)",
                    "normalise the inputs",
                ),
                confirm=("print the largest value given to exp in the first step",),
            )
        return None

    @staticmethod
    def _worst_gradient(case: Case, network: str, kept: Kept) -> tuple[Entry | None, float]:
        worst, most = None, 0.0
        for entry in case.layers(network):
            gradient, weight = kept.gradient(entry), kept.weight_before(entry) or kept.weight(entry)
            if gradient is None or weight is None:
                continue
            size = weight.change.before_abs_mean if weight.change is not None else weight.abs_mean
            ratio = math.inf if gradient.bad else (gradient.abs_mean or 0.0) / max(size or 0.0, 1e-12)
            if ratio > most:
                worst, most = entry, ratio
        return worst, most

    @staticmethod
    def _amplifier(kept: Kept, network: str, fed: float) -> tuple[Observation | None, TensorInfo | None, float]:
        """The module whose output is the most times larger than anything before it."""
        best: tuple[Observation | None, TensorInfo | None, float] = (None, None, 0.0)
        before = fed
        for one, info in kept.forward():
            if info.network != network or info.node == "":
                continue
            size = abs_max(one.stats)
            if size / before > best[2]:
                best = (one, info, size / before)
            before = max(before, size)
        return best

    @staticmethod
    def _staircase(case: Case, network: str, kept: Kept) -> tuple[TensorInfo, float] | None:
        """Outputs that grow a little with each of many layers, and enormously over all; the first that has grown"
        " much."""
        layers = {entry.parameter.module for entry in case.layers(network)}
        course = [
            (info, one.stats.abs_mean or 0.0)
            for one, info in kept.forward()
            if info.network == network and info.node in layers
        ]
        sizes = [size for _, size in course]
        if len(course) < 6 or not sizes[0] or max(sizes) < AMPLIFIED * sizes[0]:
            return None
        # By quarters: inside a block of a residual network one layer may well give less than the one before.
        cuts = [round(part * len(sizes) / 4) for part in range(5)]
        if not all(a < b for a, b in pairwise(median(sizes[begin:end]) for begin, end in pairwise(cuts))):
            return None
        large = next(info for info, size in course if size > 10 * sizes[0])
        return large, max(sizes) / sizes[0]

    @staticmethod
    def _over_time(kept: Kept, network: str, grown: float = GROWN) -> tuple[TensorInfo, float, int] | None:
        """A function or module that is called many times in a row, each time with more: over all, growth and calls."""
        courses: dict[tuple[str, str], list[tuple[TensorInfo, float]]] = {}
        for one, info in kept.forward():
            if info.network == network:
                courses.setdefault((info.node, info.type), []).append((info, one.stats.abs_mean or 0.0))
        for course in courses.values():
            sizes = [size for _, size in course]
            while sizes and not sizes[0]:  # a state begins with zeros
                sizes = sizes[1:]
            if len(sizes) < TIME_STEPS or max(sizes) < grown * sizes[0]:
                continue
            if sum(a < b for a, b in pairwise(sizes)) >= 0.8 * (len(sizes) - 1):
                return course[0][0], max(sizes) / sizes[0], len(sizes)
        return None

    @staticmethod
    def _entry_of(case: Case, network: str, info: TensorInfo, worst: Entry) -> Entry:
        own = [entry for entry in case.ledger.of(network) if entry.parameter.module == info.node and entry.layer]
        recurrent = [entry for entry in own if "hh" in entry.name]
        return (recurrent or own or [worst])[0]

    def _say(
        self,
        case: Case,
        network: str,
        entry: Entry,
        info: TensorInfo,
        kept: Kept,
        ratio: float,
        grows: float,
        *,
        steady: bool = False,
        calls: int = 0,
    ) -> Finding:
        recurrent = "hh" in entry.name or info.type.upper() in ("RNN", "LSTM", "GRU") or calls > 0
        gradient = kept.gradient(entry)
        size = "inf" if gradient is None or gradient.bad else number(gradient.abs_mean)
        through = "from time step to time step" if recurrent else "from layer to layer"
        return self.finding(
            f"gradients explode through {called(info.node)}",
            confidence=0.9,
            since_step=kept.step,
            where=case.place_of(network, entry),
            why=f"the signal grows {through} "
            + (
                f"of {called(network)}, by a little in each and {number(grows)} times over all of them: the"
                f" activations after"
                f" {called(info.node)} ({info.type}) are ten times those of the first layer"
                if steady
                else f"in {called(info.node)}: the result of {info.type}, which is called {calls} times in a row, is"
                f" {number(grows)} times as large in the end as in the beginning"
                if calls
                else f"in {called(info.node)} ({info.type}): its output is {number(grows)} times what it was given"
            )
            + f", and the gradient of {entry.name} has a mean magnitude of {size}, {number(ratio)} times its"
            f" weights, in the"
            f" very first step (exploding gradient and activation); the loss is {number(case.loss.first)}",
            facts=[
                (f"output of {called(info.node)} over its input", grows),
                ("gradient over weight, largest", ratio),
                ("gradient norm", kept.gradient_norm),
                ("first loss", case.loss.first),
            ],
            fix=(
                f"make {entry.name} smaller at the start"
                + (" (an orthogonal matrix, or its largest eigenvalue below 1)" if recurrent else ""),
                "clip gradients: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()",
                "use LSTM or GRU instead of a plain RNN" if recurrent else "add normalisation layers",
            ),
            confirm=("halve the weights of this module: the first loss falls by orders of magnitude",),
        )

    def _later(self, case: Case, network: str) -> Finding | None:
        """Gradients grow by orders of magnitude over steps, while updates were small until then."""
        steps = [kept for kept in case.deep() if kept.record.depth >= 1 and kept.gradient_norm > 0]
        if len(steps) < 8:
            return None
        norms = [kept.gradient_norm for kept in steps]
        calm = sorted(norms[: max(4, len(norms) // 3)])
        usual = calm[len(calm) // 2]
        at = next((i for i, norm in enumerate(norms) if norm > 1e3 * usual), None)
        if at is None or at < 4:
            return None
        kept = steps[at]
        largest = max((r for k, _, r in case.updates_seen() if k.step < kept.step), default=0.0)
        if largest > 0.3:
            return None  # the updates were wild before: the learning rate
        worst, _ = self._worst_gradient(case, network, kept)
        if worst is None:
            return None
        rose = next(
            (step for step, value in case.loss.points if step >= kept.step and value > 10 * abs(case.loss.first)), None
        )
        if rose is None and case.trouble.first is None:
            return None
        return self.finding(
            f"gradients explode at {worst.name}",
            confidence=0.75,
            since_step=kept.step,
            where=case.place_of(network, worst),
            why=f"the gradient norm jumped to {number(norms[at])} in step {kept.step},"
            f" {number(norms[at] / usual)} times its usual"
            f" {number(usual)}; it is largest at {worst.name}, and the loss broke after that update (exploding"
            f" gradient)",
            facts=[("usual gradient norm", usual), (f"gradient norm in step {kept.step}", norms[at])],
            fix=("clip gradients: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()",),
        )
