"""Activations that are driven to their limits, and weights that start too small."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept, abs_max
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.initialisation import mean_at_start
from tensight.diagnosis.words import called, median, number, some, where
from tensight.records import Finding, Stats, TensorInfo

STEPS = 10
TANH = 0.95  # mean magnitude
SOFTMAX = 0.9  # mean of the squared shares over the mean share: 1 when one takes all
SIGMOID = 0.48  # root mean square distance from a half
TINY = 0.02  # std times root of fan-in; 0.6 to 1.5 is usual


def _kind(info: TensorInfo) -> str:
    name = info.type.lower().rstrip("_")
    return name if name in ("tanh", "sigmoid", "softmax") else ""


def saturated(kind: str, stats: Stats) -> bool:
    """Whether nearly every value is at the end of the activation's range.

    >>> saturated("tanh", Stats(10, abs_mean=0.99)), saturated("tanh", Stats(10, abs_mean=0.6))
    (True, False)
    """
    if stats.bad or stats.abs_mean is None:
        return False
    if kind == "tanh":
        return stats.abs_mean > TANH
    if (stats.min or 0.0) < 0 or (stats.max or 0.0) > 1:
        return False
    mean, std = stats.mean or 0.0, stats.std or 0.0
    if kind == "softmax":  # the mean square of shares that are 0 or 1 is their mean
        return bool(0 < mean <= 0.5 and (std * std + mean * mean) / mean > SOFTMAX)
    return bool((std * std + (mean - 0.5) ** 2) ** 0.5 > SIGMOID)


class SaturatedActivation(Rule):
    """tanh or sigmoid between layers that is stuck at its ends from the beginning."""

    fault = "saturated_activation"
    also = MappingProxyType({"softmax_saturated": "A softmax between layers that gives 0 and 1 only, without a slope."})
    category = "gradient-flow"
    finds = "tanh, sigmoid or softmax between layers that sits at the ends of its range, where its slope is zero."
    evidence = (
        "values of tanh, sigmoid and softmax outputs between layers",
        "range of the inputs",
        "course of the loss",
    )
    explains = frozenset({"vanishing_gradient", "lr_too_low", "labels_shuffled_against_inputs"})
    symptom = True
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.1 or case.updates < 30:
            return
        steps = [kept for kept in case.deep() if kept.forward()]
        if len(steps) < STEPS:
            return
        for network in case.trained():
            stuck = self._stuck(case, network, steps)
            if stuck is not None:
                yield self._say(case, network, *stuck)

    @staticmethod
    def _stuck(case: Case, network: str, steps: list[Kept]) -> tuple[TensorInfo, Stats, int] | None:
        layers = {entry.parameter.module for entry in case.layers(network)}
        first = steps[0].forward()
        for at, (one, info) in enumerate(first):
            kind = _kind(info) if info.network == network else ""
            if not kind or not any(i.node in layers and i.network == network for _, i in first[at + 1 :]):
                continue
            seen = [stats for kept in steps if (stats := kept.last(one.tensor)) is not None]
            if len(seen) >= STEPS and sum(saturated(kind, stats) for stats in seen) >= 0.8 * len(seen):
                return info, one.stats, len(seen)
        return None

    def _say(self, case: Case, network: str, info: TensorInfo, stats: Stats, steps: int) -> Finding:
        kind = _kind(info)
        if kind == "softmax":
            return self._say_softmax(case, network, info, stats, steps)
        fed = max((abs_max(one.stats) for kept in case.beginning[:3] for one, _ in kept.of_kind("input")), default=0.0)
        because = f"; inputs reach {number(fed)}, where about 1 is expected" if fed > 10 else ""
        fix = ["normalise the inputs: (x - mean) / std"] if fed > 10 else ["use smaller initial weights"]
        return self.finding(
            f"{kind} units are saturated from the beginning",
            confidence=0.86,
            since_step=case.beginning[0].step if case.beginning else 0,
            where=where(info.source or case.source_of(network, info.node), module=info.node, op=kind, network=network),
            why=f"the outputs of {kind} in {called(info.node)} are at the ends of its range in nearly every unit and"
            f" sample"
            f" (mean magnitude {number(stats.abs_mean)}): the slope there is almost zero, so gradients vanish"
            f" (saturated)"
            f" and the loss has not fallen{because}",
            facts=[
                (f"mean magnitude of {kind} outputs", stats.abs_mean),
                ("largest input", fed),
                ("observed steps", steps),
            ],
            fix=(*fix, "or use ReLU, or a normalisation layer before the activation"),
        )

    def _say_softmax(self, case: Case, network: str, info: TensorInfo, stats: Stats, steps: int) -> Finding:
        mean = stats.mean or 0.0
        share = ((stats.std or 0.0) ** 2 + mean * mean) / mean if mean else 0.0
        return self.finding(
            "softmax is saturated: one takes all from the beginning",
            fault="softmax_saturated",
            confidence=0.87,
            since_step=case.beginning[0].step if case.beginning else 0,
            where=where(
                info.source or case.source_of(network, info.node), module=info.node, op="softmax", network=network
            ),
            why=f"the shares that softmax (attention, a router) in {called(info.node)} gives are nearly one-hot for"
            f" almost every row (mean squared share over mean share {number(share)}, where 1 means that one takes all):"
            " its scores are too large, so its slope is almost zero, hardly any gradient reaches what makes the scores"
            " (saturated), and the loss has not fallen",
            facts=[("mean squared share over mean share", share), ("mean share", mean), ("observed steps", steps)],
            fix=(
                "scale the scores down: divide by sqrt(width) of query and key, or use a higher temperature",
                "or normalise what the scores are made of",
            ),
        )


class TinyInit(Rule):
    """Initial weights so small that the signal dies out."""

    fault = "tiny_init"
    category = "initialisation"
    finds = "Initial weights many times too small for their fan-in in most layers: signal and gradients die out."
    evidence = ("spread of each weight before the first update against its fan-in", "course of the loss")
    explains = frozenset({"vanishing_gradient", "lr_too_low", "labels_shuffled_against_inputs"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.fall > 0.1 or case.updates < 50:
            return
        for network in case.trained():
            gains = []
            for entry in case.layers(network):
                mean = mean_at_start(case, entry)
                if mean is not None and entry.held and entry.matrix and entry.fan_in >= 2:
                    gains.append((entry, 1.2533 * mean * entry.fan_in**0.5))
            small = [(entry, gain) for entry, gain in gains if 0 < gain < TINY]
            if len(small) < 2 or len(small) < 0.6 * len(gains):
                continue
            entry, gain = small[0]
            names = some([one.name for one, _ in small])
            yield self.finding(
                f"initial weights are far too small ({names})",
                confidence=0.87,
                since_step=0,
                where=case.place_of(network, entry),
                why=f"{len(small)} of {len(gains)} weight matrices were initialised so small that each layer shrinks"
                f" the signal"
                f" about {number(1 / median([g for _, g in small]))} times ({entry.name}: {number(gain)} of what"
                f" keeps it,"
                " where about 1 is right): outputs and gradients are tiny, and the loss has not fallen",
                facts=[("gain of the first such layer", gain), ("layers like it", len(small)), ("loss now", trend.end)],
                fix=("use the default initialisation, or nn.init.kaiming_normal_ / xavier_normal_",),
                since="since the weights were created",
            )
