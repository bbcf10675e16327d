"""A backward written by hand that is not the slope of its forward."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import called, median, number, plural, where
from tensight.records import Event, Finding

LOOKS = 2  # that agree
WRONG = 0.5  # of the way of forward: a softer slope on purpose differs by less
DOUBTFUL = 0.28  # the same where the loss does not fall either
OPPOSITE = 0.25  # share where one rises and the other falls
LEARNS = 0.3  # by which share a loss has fallen that is being learnt
STEPS = 30


class OwnBackwardWrong(Rule):
    """An autograd.Function whose backward gives other gradients than its forward has."""

    fault = "custom_backward_wrong"
    category = "gradient-flow"
    finds = "A custom autograd.Function whose hand-written backward is not the derivative of its forward."
    evidence = ("what forward makes of its input, and what backward makes of the gradient there", "course of the loss")
    explains = NONFINITE | {
        *("lr_too_low", "lr_too_high", "labels_shuffled_against_inputs", "vanishing_gradient", "exploding_gradient"),
        *("dead_relu", "operator_without_slope", "zero_init"),
    }
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.steps < STEPS and not final:
            return
        seen: dict[object, list[tuple[int, Event]]] = {}
        for step, event in case.noted.of("own_slope"):
            seen.setdefault((event.part, event.values.get("function")), []).append((step, event))
        for looks in seen.values():
            differs, opposite = (
                [float(value) for _, event in looks if isinstance(value := event.values.get(name), float)]
                for name in ("differs", "opposite")
            )
            if len(differs) < LOOKS or len(opposite) < LOOKS or min(differs) < DOUBTFUL:
                continue
            trend = case.loss.trend()
            learns = trend is not None and trend.fall > LEARNS
            if min(differs) >= WRONG or min(opposite) >= OPPOSITE or not learns:
                yield self._say(case, looks, median(differs), median(opposite))

    def _say(self, case: Case, looks: list[tuple[int, Event]], differs: float, opposite: float) -> Finding:
        step, event = looks[0]
        function, module = str(event.values.get("function")), str(event.values.get("module") or "")
        argument = event.values.get("argument")
        against = (
            f", and {number(100 * opposite)} % of it has the opposite sign: weights before it are moved the wrong way"
            if opposite >= OPPOSITE
            else ""
        )
        if isinstance(argument, int):
            how = (
                f"Its forward is a matrix product, whose gradients are known: the one that its backward returns for"
                f" tensor {argument + 1} of its arguments differs by {number(100 * differs)} % of the right one's size"
                " and points elsewhere (an operand that is not transposed, one taken for the other, a lost sign)"
            )
        else:
            how = (
                "Compared with how its forward"
                f" really rises and falls between neighbouring inputs, the slope that its backward multiplies gradients"
                f" by is off by {number(100 * differs)} %"
            )
        return self.finding(
            f"the hand-written backward of {function} gives wrong gradients",
            confidence=0.9,
            since_step=step,
            where=where(event.source, module=module, op=function, network=event.part),
            why=f"{function} is a custom autograd.Function (called in {called(module)}). {how}{against}. So"
            " everything before it gets a gradient that is not the derivative of the loss"
            f" ({plural(len(looks), 'call')} compared)",
            facts=[
                (
                    "difference of slopes, share of the way of forward" if argument is None else "share it is off by",
                    differs,
                ),
                ("share with the opposite sign", opposite),
                ("loss at first", case.loss.first),
                ("loss now", case.loss.last),
            ],
            fix=(
                f"correct {function}.backward: it must return grad_output times the derivative of forward",
                "or leave the Function out and write forward with torch operators: autograd derives them",
            ),
            confirm=(f"torch.autograd.gradcheck({function}.apply, x.double().requires_grad_()) fails",),
        )
