"""The loss over steps: spikes, plateaus, divergence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tensight.records import Stats
from tensight.watchpoints.condition import Example, Setting
from tensight.watchpoints.conditions.trends import Windowed, past, sized

_TINY = 1e-12


class _Loss(Windowed):
    on = "loss:*"
    applies_to = frozenset({"loss"})
    statistic = "mean"


class LossSpike(_Loss):
    """LS: the loss jumps far above its recent values."""

    code = "LS"
    name = "loss_spike"
    title = "Loss spike"
    settings = (
        Setting("deviations_gt", "so many usual deviations above its median", "pos", 10.0),
        Setting("window", "how many earlier losses", "count", 50.0),
    )
    finds = "The loss is many times its usual deviation above the median of its recent history."
    matters = "After a spike the training may need long to recover, or never does."
    causes = (
        "A bad batch: outliers, wrong labels, an empty target.",
        "A learning rate that is too high, or has just been raised.",
        "An update with an unusually large gradient one step before.",
    )
    try_ = (
        "Look at the batch of this step and the gradients of the step before.",
        "Clip gradients; lower the learning rate or lengthen its warm-up.",
    )
    examples = (
        Example(sized(9.0), hit=True, history=past(1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0)),
        Example(sized(1.3), hit=False, history=past(1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0)),
        Example(sized(-9.0), hit=False, history=past(1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0)),
        Example(sized(9.0), hit=False, history=past(1.0, 1.1)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < min(self.history, 10):
            return {}
        middle = median(earlier)
        usual = median(abs(seen - middle) for seen in earlier)
        # A loss that hardly moves must not make every small move a spike.
        deviations = (value - middle) / max(1.4826 * usual, 1e-2 * abs(middle), _TINY)
        threshold = self.given["deviations_gt"]
        return {"deviations_gt": (deviations, threshold)} if deviations > threshold else {}


class LossPlateau(_Loss):
    """LP: the loss no longer improves."""

    code = "LP"
    name = "loss_plateau"
    title = "Loss plateau"
    settings = (
        Setting("improvement_lt", "relative improvement over the window is less", "abs", 1e-3),
        Setting("window", "how many earlier losses", "count", 200.0),
    )
    finds = "The median loss of the newer half of the window is hardly lower than that of the older half."
    matters = "Either the training is done, or something keeps it from learning: time to look either way."
    causes = (
        "The training has converged.",
        "A learning rate that is too low, or too high to get any further down.",
        "Gradients that do not reach most of the weights.",
        "Labels that do not belong to their inputs.",
    )
    try_ = (
        "Compare with the loss of guessing: log(classes), or the variance of the target.",
        "Look at the update ratios and gradients of the layers.",
        "Try to learn one batch by heart: if that fails, it is the code, not the data.",
    )
    examples = (
        Example(sized(1.0), hit=True, settings={"window": 4}, history=past(1.0, 1.0, 1.0, 1.0)),
        Example(sized(2.0), hit=True, settings={"window": 4}, history=past(1.0, 1.0, 2.0, 2.0)),
        Example(sized(0.2), hit=False, settings={"window": 4}, history=past(1.0, 0.8, 0.6, 0.4)),
        Example(sized(1.0), hit=False, settings={"window": 4}, history=past(1.0, 1.0)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < self.history:
            return {}
        values = [*earlier, value]
        older, newer = median(values[: len(values) // 2]), median(values[len(values) // 2 :])
        improvement = (older - newer) / max(abs(older), _TINY)
        threshold = self.given["improvement_lt"]
        return {"improvement_lt": (improvement, threshold)} if improvement < threshold else {}


class LossDivergence(_Loss):
    """LD: the loss has risen far above the best it had."""

    code = "LD"
    name = "loss_divergence"
    title = "Loss divergence"
    settings = (
        Setting("rise_gt", "relative rise above the best part of the window is greater", "pos", 1.0),
        Setting("window", "how many earlier losses, judged in fifths", "count", 50.0),
    )
    finds = "The median of the latest fifth of the window lies far above that of its best fifth."
    matters = "The training is getting worse, not only noisy: what it had learnt is being lost."
    causes = (
        "A learning rate that is too high.",
        "Gradients that grow without clipping.",
        "An optimizer whose memory was filled by one huge gradient.",
        "Data that has changed: another part of the data set, or sorted data.",
    )
    try_ = (
        "Go back to a checkpoint before the rise and lower the learning rate.",
        "Clip gradients; shuffle the data.",
    )
    examples = (
        Example(sized(5.0), hit=True, settings={"window": 4}, history=past(1.0, 1.0, 2.0, 4.0)),
        Example(sized(1.1), hit=False, settings={"window": 4}, history=past(1.0, 1.0, 1.2, 1.0)),
        Example(sized(5.0), hit=False, settings={"window": 4}, history=past(1.0, 2.0)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < self.history:
            return {}
        values = [*earlier, value]
        fifth = max(1, len(values) // 5)
        latest = median(values[-fifth:])
        best = min(median(values[at : at + fifth]) for at in range(0, len(values) - fifth + 1, fifth))
        rise = (latest - best) / max(abs(best), _TINY)
        return {"rise_gt": (rise, self.given["rise_gt"])} if rise > self.given["rise_gt"] else {}
