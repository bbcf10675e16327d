"""Layers that no optimizer was given, where only what it holds gets gradients."""

from __future__ import annotations

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.wiring import common, size_of
from tensight.diagnosis.words import at, called, number, plural, some, where
from tensight.records import Finding, Part

STEPS = 50  # before one says never
LEARNT = 0.2  # share of the loss that a head on random features may have brought down before it seems to be meant


def drawn(case: Case, entry: Entry) -> bool:
    """Whether a weight still is what usual initialisers draw: spread evenly within one of their bounds.

    What was trained elsewhere, and is kept as it is on purpose, has long tails.
    """
    fan_in, fan_out = max(1, entry.fan_in), max(1, entry.parameter.size // max(1, entry.parameter.shape[1]))
    bounds = (fan_in**-0.5, (6 / fan_in) ** 0.5, (6 / (fan_in + fan_out)) ** 0.5)
    for kept in case.beginning:
        stats = kept.weight_before(entry) or kept.weight(entry)
        if stats is None or stats.bad or stats.count < 64 or stats.min is None or stats.max is None:
            continue
        most, spread = max(abs(stats.min), abs(stats.max)), stats.std or 0.0
        return any(0.9 * bound < most <= 1.0001 * bound and abs(spread / bound - 3**-0.5) < 0.1 for bound in bounds)
    return False


def without_gradients(rule: Rule, case: Case, *, final: bool) -> list[Finding]:
    """What `rule` says of a network that stands random for the most part, while the rest learns hardly anything."""
    trend = case.loss.trend()
    if not final or case.updates < STEPS or trend is None or not trend.fall < LEARNT:
        return []
    findings = []
    for network in case.trained():
        part = case.optimizer_of(network)
        if part is not None and not part.unknown_parameters:  # others: a layer was replaced
            left = _left(case, network)
            if left:
                findings.append(_say(rule, case, network, left, part, trend.begin, trend.end))
    return findings


def _left(case: Case, network: str) -> list[Entry]:
    ran = case.ran(network)
    layers = [entry for entry in case.layers(network) if entry.matrix and entry.parameter.module in ran]
    left = [
        entry
        for entry in layers
        if entry.parameter.trainable
        and entry.parameter.registered
        and not entry.held
        and entry.first_move < 0
        and entry.gradient < 0  # those with gradients are the business of `NotInOptimizer`
    ]
    enough = len(left) < len(layers) and size_of(left) > 0.5 * size_of(layers)
    return left if enough and all(drawn(case, entry) for entry in left) else []


def _say(rule: Rule, case: Case, network: str, left: list[Entry], part: Part, begin: float, end: float) -> Finding:
    place = common([entry.parameter.module for entry in left])
    share = size_of(left) / size_of([entry for entry in case.layers(network) if entry.matrix])
    return rule.finding(
        f"{part.type} was not given the parameters of {called(place)}",
        confidence=0.82,
        since_step=0,
        where=where(part.source, module=place, parameter=left[0].name, network=network),
        why=f"{plural(len(left), 'layer')} of {called(place)} ({some([entry.name for entry in left])};"
        f" {number(100 * share)} % of the weights) run in every step and may be trained, but are in no"
        f" optimizer{at(part.source)}: after {plural(case.updates, 'update')} they are random as they were"
        f" made, and what is left has brought the loss from {number(begin)} to {number(end)} only",
        facts=[
            ("layers in no optimizer", len(left)),
            ("share of the weights", share),
            ("loss at the beginning", begin),
            ("loss at the end", end),
        ],
        fix=(
            f"give the optimizer all parameters: model.parameters(){at(part.source)}",
            "or, if they are to stay as they are, freeze them: requires_grad = False",
        ),
        confirm=(f"compare {left[0].name} before and after a step: it is the same",),
    )
