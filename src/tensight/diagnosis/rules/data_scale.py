"""Inputs so small that the network does not see them."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import abs_max
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, where
from tensight.records import Finding

TINY = 0.02  # the largest of all inputs
UPDATES = 100


class InputTooSmall(Rule):
    """Inputs near zero: biases outweigh them, and the loss stays at what guessing gives."""

    fault = "input_too_small"
    category = "data"
    finds = "Inputs a hundred times smaller than usual, as pixels divided by 255 twice are, of which nothing is learnt."
    evidence = ("range of inputs", "loss against that of guessing", "a probe of inputs and labels")
    explains = frozenset({"lr_too_low", "vanishing_gradient", "labels_shuffled_against_inputs"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        probe, chance = case.scalars.get("probe/label_information"), case.chance_loss()
        trend = case.loss.trend()
        if not case.beginning or probe is None or probe.last <= 0 or chance is None or trend is None:
            return
        if case.updates < UPDATES or trend.end < 0.9 * chance:
            return
        fed = [
            (one.stats, info)
            for one, info in case.beginning[0].of_kind("input")
            if one.phase == "forward" and info.dtype.startswith(("float", "bfloat")) and not one.stats.bad
        ]
        largest = max((abs_max(stats) for stats, _ in fed), default=1.0)
        if not 0 < largest < TINY:
            return
        stats, info = max(fed, key=lambda pair: abs_max(pair[0]))
        loader = next((part for (kind, _), part in case.parts.items() if kind == "loader"), None)
        yield self.finding(
            "the input is too small to be seen",
            confidence=0.85,
            since_step=0,
            where=where(
                loader.source if loader is not None else None,
                module=case.first_module(info.network),
                network=info.network,
            ),
            why=f"input values range from {number(stats.min)} to {number(stats.max)} (std {number(stats.std)}), where"
            " networks expect a spread of about 1: biases and norms outweigh data of such a scale. A small probe"
            f" finds the labels in these inputs, but after {plural(case.updates, 'update')} the loss is"
            f" {number(trend.end)} and guessing gives {number(chance)}. Data that is scaled twice (divided by 255 and"
            " again) looks like this",
            facts=[
                ("largest input", largest),
                ("std of the input", stats.std),
                ("loss now", trend.end),
                ("loss of guessing", chance),
            ],
            fix=("scale once and standardise: (x - mean) / std, so that the spread is about 1",),
            confirm=("print x.min(), x.max(), x.std() of a batch as the network gets it",),
        )
