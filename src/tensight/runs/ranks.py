"""Whether replicas on several ranks still agree: the same weights after the same step.

Each rank records alone; only what all of them recorded together shows a disagreement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensight.diagnosis.differing import conclude
from tensight.records import Evidence, Finding, Stats, Where
from tensight.runs import agreement
from tensight.store import Reader

LOOKED_AT = 12  # common steps, spread over the run
TOLERANCE = 1e-6  # of the size of a weight's values: ranks may add in another order

Weights = dict[tuple[str, str], Stats]


def disagreement(readers: Mapping[int, Reader]) -> list[Finding]:
    """A finding when replicas that should be alike have different weights: by checksums where ranks have told them."""
    if len(readers) > 1 and any(part.kind == agreement.KIND for reader in readers.values() for part in reader.parts):
        found = [
            one
            for one in agreement.differences(agreement.read(reader) for reader in readers.values())
            if one.kind != "single" or _meant_to_be_one(readers)
        ]
        return [conclude(found[0].event(), next(iter(readers.values())).parts)] if found else []
    if len(readers) < 2 or not all(_wrapped(reader) for reader in readers.values()):
        return []
    common = sorted(set.intersection(*(set(reader.steps.numbers) for reader in readers.values())))
    first = _first_difference(readers, _spread(common))
    if first is None:
        return []
    step, (network, name), values = first
    ranks = ", ".join(f"rank {rank} {value:.6g}" for rank, value in values.items())
    wrapper = next(part for part in next(iter(readers.values())).parts if part.kind == "wrapper")
    apart = _started_apart(readers, network, name)
    if wrapper.type == "all_reduce":
        keeps = "gradients are averaged (all-reduced) by hand, which keeps replicas in sync only if they start alike"
    else:
        keeps = f"{wrapper.type} keeps replicas in sync by averaging (all-reducing) gradients"
    because = (
        "They differed before the first step: each rank has initialised its own weights, as with a seed of its own,"
        " and nobody has broadcast those of rank 0"
        if apart
        else "They diverge when a rank changes weights by itself, or when its updates do not follow from the averaged"
        " gradients"
    )
    return [
        Finding(
            fault="replicas_diverge",
            category="distributed",
            title=f"ranks no longer agree: {name} differs between replicas",
            confidence=0.9,
            since_step=step,
            where=Where(
                parameter=name,
                network=network,
                file=wrapper.source.file if wrapper.source else None,
                line=wrapper.source.line if wrapper.source else None,
                code=wrapper.source.code if wrapper.source else None,
            ),
            why=(
                f"after step {step} the mean absolute value of {name} is {ranks}: {keeps}, so every process should hold"
                f" the same weights. {because}"
            ),
            evidence=tuple(Evidence(f"mean absolute value of {name} on rank {r}", v, step) for r, v in values.items()),
            fix=(
                *(
                    ("broadcast the weights of rank 0 before training: dist.broadcast(p.data, 0) for each parameter",)
                    * apart
                ),
                "change weights on every rank alike, and only after the wrapper was made",
                "give every rank the same optimizer, learning rate and clipping",
            ),
            confirm=("broadcast one weight from rank 0 after a step and compare it with the own one",),
        )
    ]


def _meant_to_be_one(readers: Mapping[int, Reader]) -> bool:
    """Whether ranks that never averaged anything were meant to train one network: they are over, were made alike, and
    never put their weights together."""
    settings = []
    for reader in readers.values():
        if reader.end is None or any(part.kind in ("wrapper", "exchange", "pipeline") for part in reader.parts):
            return False
        settings.append([(part.name, part.settings) for part in reader.parts if part.kind == "optimizer"])
    return all(one == settings[0] for one in settings)


def _started_apart(readers: Mapping[int, Reader], network: str, name: str) -> bool:
    """Whether a weight differed between ranks before anything was trained."""
    seen = []
    for reader in readers.values():
        tensors = reader.tensors
        for one in reader.steps.at(min(reader.steps.numbers)).observations:
            info = tensors.get(one.tensor)
            if info is not None and (info.network, info.name, one.phase) == (network, name, "forward"):
                seen.append(one.stats)
                break
    return len(seen) == len(readers) and _differ(seen)


def _wrapped(reader: Reader) -> bool:
    return any(part.kind == "wrapper" for part in reader.parts)


def _spread(steps: Sequence[int]) -> list[int]:
    if len(steps) <= LOOKED_AT:
        return list(steps)
    # the beginning closely, since most replicas part at once; the rest at even distances
    return sorted({*steps[:4], *(steps[(len(steps) - 1) * index // (LOOKED_AT - 4)] for index in range(LOOKED_AT - 3))})


def _first_difference(
    readers: Mapping[int, Reader], steps: Sequence[int]
) -> tuple[int, tuple[str, str], dict[int, float]] | None:
    for step in steps:
        weights = {rank: _weights(reader, step) for rank, reader in readers.items()}
        for key in next(iter(weights.values())):
            seen = {rank: found[key] for rank, found in weights.items() if key in found}
            if len(seen) == len(readers) and _differ(list(seen.values())):
                return step, key, {rank: float(stats.abs_mean or 0.0) for rank, stats in seen.items()}
    return None


def _weights(reader: Reader, step: int) -> Weights:
    tensors = reader.tensors
    found: Weights = {}
    for seen in reader.steps.at(step).observations:
        info = tensors.get(seen.tensor)
        if info is not None and info.kind == "weight" and seen.phase == "update":
            found[info.network, info.name] = seen.stats
    return found


def _differ(all_stats: Sequence[Stats]) -> bool:
    one = all_stats[0]
    for other in all_stats[1:]:
        if (one.nan, one.inf) != (other.nan, other.inf):
            return True
        size = max(float(one.abs_mean or 0.0), float(other.abs_mean or 0.0))
        for a, b in ((one.abs_mean, other.abs_mean), (one.mean, other.mean), (one.max, other.max)):
            if a is not None and b is not None and math.isfinite(a) and abs(a - b) > TOLERANCE * size:
                return True
    return False
