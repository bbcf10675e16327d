"""A last activation whose range the targets of a regression lie outside of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import REGRESSION_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.loss_definition import NOT_LEARNING, maker, place_of
from tensight.diagnosis.words import number, where
from tensight.records import Finding

CALLS = 3
UPDATES = 40
BEYOND = 0.05  # share of the targets
MOST_OF = 0.5  # of the loss that is left: no training takes that away
_RANGES = {"tanh": "-1 to 1", "sigmoid": "0 to 1", "softmax": "0 to 1", "relu": "0 and above"}


class OutputRangeTooSmall(Rule):
    """Targets that no output of the network can reach."""

    fault = "output_range_too_small"
    category = "loss-definition"
    finds = "A tanh, sigmoid, softmax or relu as the last step of a regression whose targets lie outside of its range."
    evidence = (
        "the activation that made the prediction",
        "share of targets outside of its range",
        "the loss that these leave at best, against the loss",
    )
    explains = NOT_LEARNING | {"saturated_activation", "target_not_normalised", "huge_init"}
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.updates < UPDATES:
            return
        for site in case.losses:
            told = site.calls >= CALLS and site.made_by in _RANGES and "target_beyond" in site.first
            if site.function in REGRESSION_LOSSES and told and _stuck(site.latest):
                yield self._say(case, site)

    def _say(self, case: Case, site: LossSite) -> Finding:
        name = site.made_by
        source, module, network = place_of(case, maker(case, name), site)
        beyond, floor = (float(site.latest[fact]) for fact in ("target_beyond", "target_floor"))  # type: ignore[arg-type]
        low, high, value = site.number("target_min"), site.number("target_max"), site.latest.get("value")
        return self.finding(
            f"{name} cannot reach the targets",
            confidence=0.9,
            since_step=site.first_step,
            where=where(source, module=module, op=name, network=network),
            why=f"the prediction is the output of {name}, whose range is {_RANGES[name]}; the targets of"
            f" {site.function} go from {number(low)} to {number(high)}, and {number(100 * beyond)} % of them lie out"
            f"side of that range. The best output it can give still leaves a loss of {number(floor)} of the"
            f" {number(value if isinstance(value, float) else None)} there is, and where the output is pushed to the"
            " end of its range it saturates and passes no gradient back",
            facts=[
                ("share of targets out of reach", beyond),
                ("loss that they leave at best", floor),
                ("smallest target", low),
                ("largest target", high),
                ("loss now", case.loss.last),
            ],
            fix=(
                f"leave the last {name} out: a regression ends in a linear layer",
                f"or scale the targets to {_RANGES[name]}, and the answers back",
            ),
            confirm=("print the smallest and largest prediction and target side by side",),
        )


def _stuck(facts: Mapping[str, object]) -> bool:
    """Whether most of the loss of a call comes from targets that are out of reach."""
    beyond, floor, value = (facts.get(name) for name in ("target_beyond", "target_floor", "value"))
    if not isinstance(beyond, float) or not isinstance(floor, float) or not isinstance(value, float):
        return False
    return facts.get("reduction") == "mean" and beyond >= BEYOND and floor >= MOST_OF * value > 0
