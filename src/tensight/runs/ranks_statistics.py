"""Running statistics of normalisation layers that each rank keeps for itself, and that have parted for good.

Without `broadcast_buffers` every rank follows its own batches. While those are alike that does no harm; where they are
not, the ranks evaluate as different networks, and a checkpoint holds the statistics of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensight.records import Evidence, Finding, Part, Where
from tensight.store import Reader

APART = 1.5  # times as large on one rank as on another
SURE = 2  # looks in a row, the last of the run
EARLIEST = 10  # steps: before, running statistics hold more of what they began with than of the data
MOST_READ = 400  # steps that are looked through, from the end


def statistics_apart(readers: Mapping[int, Reader]) -> list[Finding]:
    """A finding when ranks keep running variances of their own which are not those of the same data."""
    wrapper = _own(readers)
    if wrapper is None or not all(_wanted(reader) for reader in readers.values()):
        return []
    seen: dict[str, list[tuple[int, dict[int, float]]]] = {}
    for step in reversed(_common(readers)):
        if step < EARLIEST:
            break
        spread = {rank: dict(_variances(reader, step)) for rank, reader in readers.items()}
        for name in next(iter(spread.values())):
            values = {rank: found[name] for rank, found in spread.items() if name in found}
            if len(values) == len(readers):
                seen.setdefault(name, []).append((step, values))
        if seen and all(len(looks) >= SURE for looks in seen.values()):
            break
    for name, looks in seen.items():
        if len(looks) >= SURE and all(_apart(values) for _, values in looks):
            return [_say(name, looks[0], wrapper)]
    return []


def _own(readers: Mapping[int, Reader]) -> Part | None:
    """What averages gradients and leaves buffers to each rank."""
    if len(readers) < 2:
        return None
    parts = next(iter(readers.values())).parts
    wrapper = next((part for part in parts if part.kind == "wrapper"), None)
    by_hand = wrapper is not None and wrapper.type == "all_reduce"
    return wrapper if wrapper is not None and (by_hand or wrapper.settings.get("broadcast_buffers") is False) else None


def _common(readers: Mapping[int, Reader]) -> list[int]:
    return sorted(set.intersection(*(set(reader.steps.numbers) for reader in readers.values())))[-MOST_READ:]


def _wanted(reader: Reader) -> frozenset[int]:
    return frozenset(id for id, info in reader.tensors.items() if info.kind == "buffer" and info.slot == "running_var")


def _variances(reader: Reader, step: int) -> Iterator[tuple[str, float]]:
    for one in reader.steps.some(step, _wanted(reader)).observations:
        if one.phase == "update" and one.stats.mean is not None:
            yield reader.tensors[one.tensor].name, float(one.stats.mean)


def _apart(values: Mapping[int, float]) -> bool:
    return max(values.values()) > APART * min(values.values()) > 0


def _say(name: str, look: tuple[int, dict[int, float]], wrapper: Part) -> Finding:
    step, values = look
    told = ", ".join(f"{value:.4g} on rank {rank}" for rank, value in values.items())
    how = (
        "Gradients are averaged by hand, and nobody averages or broadcasts buffers"
        if wrapper.type == "all_reduce"
        else f"{wrapper.type} was made with broadcast_buffers=False"
    )
    source = wrapper.source
    return Finding(
        fault="replicas_diverge",
        category="distributed",
        title=f"ranks no longer agree: the running statistics {name} part",
        confidence=0.85,
        since_step=0,
        where=Where(
            parameter=name,
            module=name.rpartition(".")[0] or None,
            file=source.file if source else None,
            line=source.line if source else None,
            code=source.code or None if source else None,
        ),
        why=f"after step {step} the mean of {name} is {told}: each process follows its own batches, and these differ"
        f" between ranks. {how}, so the replicas have the same weights and different buffers: in evaluation they are"
        " different networks, and a checkpoint of rank 0 holds the statistics of rank 0's data alone",
        evidence=tuple(Evidence(f"mean of {name} on rank {rank}", value, step) for rank, value in values.items()),
        fix=(
            "use nn.SyncBatchNorm.convert_sync_batchnorm(model), or leave broadcast_buffers at True",
            "shuffle before the data is divided, so that every rank sees the same kinds of samples",
        ),
        confirm=("evaluate the same batch on every rank: the results differ",),
    )
