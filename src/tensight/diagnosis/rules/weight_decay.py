"""Weight decay that eats the weights."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.initialisation import mean_at_start
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding, Part

SHRUNK = 0.1
LEAK = 0.03  # of every weight in each update: what was learnt is gone after some thirty of them; usual is 1e-4 or less
NOTHING = 0.02  # of their first size that is left of weights which carry nothing any more
LITTLE = 0.6  # by which the loss may have fallen all the same: biases alone learn a mean
LEAKS = 0.7  # of their first size that is left of weights then: gradients hold them off zero

# these add the decay to the gradient and divide by its size: what counts is which of the two is larger
ADAPTIVE = frozenset({"Adam", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop"})


class WeightDecayTooLarge(Rule):
    """Weights that decay towards zero faster than gradients can hold them."""

    fault = "weight_decay_too_large"
    category = "optimizer-update"
    finds = "A weight decay that shrinks all weights towards zero while the loss does not fall."
    evidence = ("weight decay and learning rate", "size of weights over the steps", "course of the loss")
    explains = frozenset({"vanishing_gradient", "dead_relu", "labels_shuffled_against_inputs", "lr_too_low"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for part in case.optimizers():
            decay, rate = part.settings.get("weight_decay"), part.settings.get("lr")
            if not isinstance(decay, (int, float)) or not isinstance(rate, (int, float)) or not decay > 0:
                continue
            steps = case.order.optimizer(part.name).steps
            if steps < 20 or decay < 0.05 or (part.type not in ADAPTIVE and decay * rate * steps < 1.0):
                continue
            leaks = part.type not in ADAPTIVE and decay * rate >= LEAK and decay * rate * steps >= 3.0
            trend = case.loss.trend()
            if trend is None:
                continue
            if trend.fall <= (0.3 if leaks else 0.1):
                shrunk = shrunk_layer(case, part, LEAKS if leaks else SHRUNK)
            elif trend.fall <= LITTLE:
                shrunk = self._nothing_left(case, part)
            else:
                continue
            if shrunk is not None:
                findings.append(self._say(part, float(decay), float(rate), steps, shrunk, trend.fall))
        return findings

    @staticmethod
    def _nothing_left(case: Case, part: Part) -> tuple[str, float, int] | None:
        """No layer holds anything any more, and the loss has stood still for half of the run: what it fell before that
        was the mean answer. One layer that holds on tells a network whose other layers are normalised.
        """
        shrunk = shrunk_layer(case, part, NOTHING)
        if shrunk is None or shrunk_layer(case, part, SHRUNK, share=1.0) is None:
            return None
        since = case.loss.trend(since=max(shrunk[2], case.last_step // 2))
        return shrunk if since is not None and since.count >= 8 and since.fall <= 0.05 else None

    def _say(
        self, part: Part, decay: float, rate: float, steps: int, shrunk: tuple[str, float, int], fall: float
    ) -> Finding:
        name, share, _ = shrunk
        takes = (
            "outweighs the gradients, to which this optimizer adds it before it divides by their size, and takes up to"
            " the whole learning rate off every weight"
            if part.type in ADAPTIVE
            else f"takes {number(decay * rate * 100)} % off every weight"
        )
        return self.finding(
            f"weight decay {number(decay)} shrinks the weights to nothing",
            confidence=0.85,
            since_step=0,
            where=where(part.source, op=f"{part.type}.step", parameter=name),
            why=f"weight_decay={number(decay)} with learning rate {number(rate)} {takes}"
            f" in each update: after {plural(steps, 'update')} {name} has {number(share * 100)} % of its first"
            f" size, and the loss has {'not fallen' if fall <= 0.1 else f'fallen by only {fall:.0%}'}",
            facts=[("weight decay", decay), ("learning rate", rate), (f"size of {name} against the start", share)],
            fix=(f"lower weight_decay{at(part.source)}: 1e-4 to 1e-2 is usual",),
        )


def shrunk_layer(case: Case, part: Part, below: float = SHRUNK, share: float = 0.6) -> tuple[str, float, int] | None:
    """The layer that shrank the most, when most of them did (or all: share 1); and since when it was a half."""
    latest = case.latest(1)
    held = {name.partition(":")[2] for name in part.parameters}
    found, total = [], 0
    for network in case.trained():
        for entry in case.layers(network):
            begin = mean_at_start(case, entry)
            now = latest[0].weight(entry) if latest else None
            if entry.name not in held or not begin or now is None or now.abs_mean is None:
                continue
            total += 1
            if now.abs_mean < below * begin:
                half = next(
                    (
                        k.step
                        for k in case.deep()
                        if (s := k.weight(entry)) is not None and (s.abs_mean or 0) < begin / 2
                    ),
                    case.last_step,
                )
                found.append((entry.name, now.abs_mean / begin, half))
    if not found or len(found) < share * total:
        return None
    return min(found, key=lambda one: one[1])
