"""Whether the updates have a size that learns, and whether one batch can be learnt."""

from __future__ import annotations

from tensight.diagnosis.words import median, number, plural
from tensight.session.preflight_checks.look import Answer, Look

LOW, HIGH = 1e-6, 0.1  # mean change over mean weight, a step
FALL = 0.3  # of the loss on one batch
SLIGHT = 0.02


def updates_have_size(look: Look) -> Answer:
    """Mean change of a layer's weights over their mean size, a step: about a thousandth is usual."""
    ratios: dict[str, list[float]] = {}
    for kept in look.case.deep():
        for one, info in kept.of_kind("weight"):
            entry, change = look.case.ledger.weight_of(one.tensor), one.stats.change
            if one.stats.bad:
                return Answer("unknown", f"{info.name} is not finite after step {kept.step}")
            if entry is not None and change is not None and entry.layer and entry.held and kept.step > 0:
                # a weight that starts at zero is compared with the size that is usual
                size = max(change.before_abs_mean, 0.5 / entry.fan_in**0.5)
                ratios.setdefault(entry.name, []).append(change.abs_mean / size)
    middles = {name: median(values) for name, values in ratios.items() if any(values)}
    if not middles:
        return Answer("unknown", "no update of a layer's weights was seen")
    slowest, fastest = min(middles, key=lambda n: middles[n]), max(middles, key=lambda n: middles[n])
    least, most = number(middles[slowest]), number(middles[fastest])
    said = f"weights change by {least if least == most else f'{least} to {most}'} of their size a step"
    if middles[fastest] > HIGH:
        return Answer("look", f"{said} (most: {fastest})", "lower the learning rate, or warm it up")
    if middles[fastest] < LOW and not _warms_up(look):
        return Answer("look", f"{said} (most: {fastest})", "raise the learning rate")
    return Answer("ok", said)


def _warms_up(look: Look) -> bool:
    rates = look.case.lr()
    return rates is not None and rates.last > rates.first


def one_batch(look: Look) -> Answer:
    """The loss on one batch, handed out again and again to a copy of the training, falls."""
    trial = look.trial
    if len(trial.losses) < 10:
        reason = trial.reason or f"the copy made only {plural(len(trial.losses), 'step')}"
        return Answer("unknown", f"not tried: {reason}" if not trial.losses else reason)
    first, last = median(trial.losses[:3]), median(trial.losses[-5:])
    fall = (first - last) / (abs(first) + 1e-30)
    said = f"the loss on it went from {number(first)} to {number(last)} in {plural(len(trial.losses), 'step')}"
    if trial.reason:
        return Answer("bad", f"{said}; {trial.reason}", "lower the learning rate")
    if fall >= FALL:
        return Answer("ok", said)
    if fall >= SLIGHT or _warms_up(look):
        return Answer("look", said, "slowly: noise (dropout, augmentation), a small learning rate, or a warm-up")
    return Answer("bad", said, "a network that cannot learn one batch has a fault in loss, wiring or learning rate")
