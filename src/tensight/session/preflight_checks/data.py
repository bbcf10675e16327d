"""What the training is fed."""

from __future__ import annotations

from collections import Counter

from tensight.diagnosis.losses import CLASS_LOSSES
from tensight.diagnosis.words import number, plural
from tensight.session.preflight_checks.look import Answer, Look

HUGE = 1e3
LARGE = 30.0
IMBALANCED = 0.9  # share of one class
FEW = 3  # batches from which on it can be said that they are all the same


def inputs_are_finite(look: Look) -> Answer:
    """No NaN and no infinity in inputs, targets or batches."""
    count = 0
    for step, one, info in look.seen("input", "target"):
        count += 1
        if one.stats.bad:
            return Answer(
                "bad",
                f"the {info.kind} of step {step} holds {plural(one.stats.bad, 'value')} that are NaN or infinite",
                "drop or repair such samples where they are loaded",
            )
    for step, event in look.events("batch"):
        count += 1
        for name, value in event.values.items():
            if name.startswith("nan.") and value:
                return Answer(
                    "bad",
                    f"batch {event.values.get('index')} of {event.part} holds NaN (step {step})",
                    "drop or repair such samples where they are loaded",
                )
    if not count:
        return Answer("unknown", "no input was seen")
    return Answer("ok", f"no NaN and no infinity in {plural(count, 'tensor')}")


def inputs_have_scale(look: Look) -> Answer:
    """Measured inputs lie within some tens, and are not one constant."""
    largest, where, smallest = 0.0, "", float("inf")
    for _, one, info in look.seen("input"):
        stats = one.stats
        if not info.dtype.startswith(("float", "bfloat")) or stats.count < 2 or stats.min is None or stats.max is None:
            continue
        size = max(abs(stats.min), abs(stats.max))
        smallest = min(smallest, stats.max - stats.min)
        if size >= largest:
            largest, where = size, info.network or "the network"
    if smallest == float("inf"):
        return Answer("unknown", "no input of measured values was seen (token numbers have no scale)")
    if largest == 0 or (smallest == 0 and _all_constant(look)):
        return Answer(
            "bad", f"every input of {where} is one constant", "look at what the data set returns before the network"
        )
    normalise = "normalise: subtract the mean and divide by the standard deviation of the training data"
    if largest > HUGE:
        return Answer("bad", f"inputs of {where} reach {number(largest)}", normalise)
    if largest > LARGE:
        return Answer("look", f"inputs of {where} reach {number(largest)}", normalise)
    return Answer("ok", f"inputs lie within ±{number(largest)}")


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _all_constant(look: Look) -> bool:
    values = {(one.stats.min, one.stats.max) for _, one, _ in look.seen("input") if one.stats.count > 1}
    return len(values) == 1 and all(low == high for low, high in values)


def labels(look: Look) -> Answer:
    """Class labels differ inside a batch, and fit the number of classes."""
    sites = [site for site in look.case.losses if site.function in CLASS_LOSSES and site.labelled]
    if not sites:
        return Answer("unknown", "no loss on class labels was seen")
    site = max(sites, key=lambda one: one.calls)
    alone = sum(site.single.values())
    if alone == site.labelled and site.batch > 1:
        if len(site.single) == 1:
            return Answer("bad", f"every label of {_batches(alone)} is {next(iter(site.single))}")
        return Answer(
            "bad",
            f"each of {_batches(alone)} holds one class only",
            "shuffle: DataLoader(..., shuffle=True)",
        )
    spread = site.entropy / site.labelled
    most, share = site.first.get("target_most"), site.number("target_most_share")
    if share is not None and share > IMBALANCED and site.labelled > 1:
        said = f"{100 * share:.0f} % of the labels of the first batch are {most}"
        return Answer("look", said, "weigh the loss by class, or sample classes evenly (WeightedRandomSampler)")
    return Answer("ok", f"{site.classes} classes, entropy of the labels {number(spread)} nats a batch")


def batches_differ(look: Look) -> Answer:
    """The loader, or the network's input, is not the same each time."""
    events = [event for _, event in look.events("batch") if "mean.0" in event.values]
    total = len(events)
    if total:
        repeats = sum("repeat_of" in event.values for event in events)
        distinct = {tuple((k, v) for k, v in event.values.items() if k[:4] in ("mean", "std.")) for event in events}
        if total >= FEW and len(distinct) == 1 and events[0].values.get("index") != events[-1].values.get("index"):
            return Answer("bad", f"all of {_batches(total)} are the same", "look at the data set's __getitem__")
        if repeats:
            return Answer("look", f"{repeats} of {_batches(total)} repeat an earlier one of the same epoch")
        return Answer("ok", f"{len(distinct)} of {_batches(total)} are different")
    seen: dict[int, set[tuple[float | None, float | None]]] = {}
    looks: Counter[int] = Counter()
    for _, one, info in look.seen("input"):
        if info.dtype.startswith(("float", "bfloat", "int")) and one.stats.count > 1:
            seen.setdefault(one.tensor, set()).add((one.stats.mean, one.stats.l2))
            looks[one.tensor] += 1
    if not seen:
        return Answer("unknown", "no batch was seen")
    most = max(len(values) for values in seen.values())
    if most == 1 and look.updated >= FEW:
        return Answer("look", "the same input in every step: fine for full-batch training, wrong for anything else")
    looked = plural(max(looks.values()), "look")  # a few steps at the end are only clocked
    return Answer("ok", f"{plural(most, 'different input')} in {looked}")
