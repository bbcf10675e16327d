"""What only the recordings of all ranks together show: optimizers that part, weights loaded by some, the same data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tensight.diagnosis.differing import AT_FIRST
from tensight.records import Event, Evidence, Finding, Part, Source, Where
from tensight.store import Reader

MOST_READ = 2_000  # steps whose learning rates are compared
LOOKED_AT = 12  # steps whose inputs are compared, from the first on
FEWEST = 6  # of them that must show the inputs of every rank
SMALLEST = 8  # values of an input that cannot be the same by chance

Fed = tuple[tuple[str, str, tuple[float, ...]], ...]


def refined(findings: Sequence[Finding], readers: Mapping[int, Reader]) -> list[Finding]:
    """The same findings, where replicas that diverge have a cause which their recordings show."""
    return [
        _explained(finding, readers) if finding.fault == "replicas_diverge" and len(readers) > 1 else finding
        for finding in findings
    ]


def _explained(finding: Finding, readers: Mapping[int, Reader]) -> Finding:
    if any(one.what == AT_FIRST for one in finding.evidence):
        return _by_loading(finding, readers)
    return _by_rate(finding, readers) or _by_settings(finding, readers) or finding


def _by_loading(finding: Finding, readers: Mapping[int, Reader]) -> Finding:
    """Replicas that differ from the start because only some ranks have loaded weights."""
    loaded = {rank: event for rank, reader in readers.items() if (event := _loaded(reader)) is not None}
    if not loaded or len(loaded) == len(readers):
        return finding
    source = next(iter(loaded.values())).source
    who, others = _ranks(loaded), _ranks(rank for rank in readers if rank not in loaded)
    return msgspec.structs.replace(
        finding,
        title=f"only {who} loaded weights: ranks start from different ones",
        where=_at(finding.where, source),
        why=f"{finding.why}. Here {who} loaded weights before the first step, and {others} did not",
        fix=("load the same weights on every rank, before the wrapper is made or the weights of rank 0 are broadcast",),
    )


def _loaded(reader: Reader) -> Event | None:
    first = reader.steps.numbers[:1]
    events = reader.steps.head(first[0]).events if first else ()
    return next((event for event in events if event.kind == "weights_loaded"), None)


def _by_settings(finding: Finding, readers: Mapping[int, Reader]) -> Finding | None:
    """Replicas whose optimizers were made differently."""
    optimizers = [{part.name: part for part in reader.parts if part.kind == "optimizer"} for reader in readers.values()]
    for name, first in optimizers[0].items():
        parts = [found.get(name, first) for found in optimizers]
        for setting in first.settings:
            values = [part.settings.get(setting) for part in parts]
            if setting == "lr" or len(set(values)) == 1:
                continue
            told = ", ".join(f"{value} on rank {rank}" for rank, value in zip(readers, values))
            return msgspec.structs.replace(
                finding,
                title=f"ranks use another {setting}, and their weights part",
                where=_at(finding.where, first.source),
                why=f"{setting} of {name} is {told}. Averaged gradients keep replicas alike only if every rank makes"
                f" the same update of them: here {finding.where.parameter or 'their weights'} and others part",
                evidence=tuple(Evidence(f"{setting} on rank {rank}", value) for rank, value in zip(readers, values)),
                fix=(f"give the optimizer of every rank the same {setting}",),
            )
    return None


def _by_rate(finding: Finding, readers: Mapping[int, Reader]) -> Finding | None:
    apart = rates_apart(readers)
    if apart is None or apart[0] > finding.since_step:
        return None
    step, rates = apart
    told = ", ".join(f"{rate:.4g} on rank {rank}" for rank, rate in rates.items())
    where = _at(finding.where, _scheduler(readers) if step else _optimizer(readers))
    return msgspec.structs.replace(
        finding,
        title="ranks use different learning rates, and their weights part",
        since_step=step,
        where=where,
        why=f"in step {step} the learning rate was {told}. Averaged gradients keep replicas alike only if every rank"
        f" makes the same update of them: since then the ranks differ, and {where.parameter or 'their weights'} with"
        " them" + (". A scheduler that steps on one rank only does this" if step else ""),
        evidence=tuple(Evidence(f"learning rate on rank {rank}", rate, step) for rank, rate in rates.items()),
        fix=("step the scheduler on every rank, with the same value where it watches one: all_reduce it first",)
        if step
        else ("give every rank the same learning rate",),
    )


def _optimizer(readers: Mapping[int, Reader]) -> Source | None:
    """The line that makes the optimizer."""
    parts = next(iter(readers.values())).parts
    return next((part.source for part in parts if part.kind == "optimizer"), None)


def _at(where: Where, source: Source | None) -> Where:
    if source is None:
        return where
    return msgspec.structs.replace(where, file=source.file, line=source.line, code=source.code or None)


def _ranks(ranks: Iterable[int]) -> str:
    """
    >>> _ranks([0]), _ranks([1, 3])
    ('rank 0', 'ranks 1, 3')
    """
    listed = [str(rank) for rank in ranks]
    return f"rank{'s' if len(listed) > 1 else ''} {', '.join(listed)}"


def rates_apart(readers: Mapping[int, Reader]) -> tuple[int, dict[int, float]] | None:
    """The first step at which ranks had different learning rates, and those."""
    for step in _common(readers)[:MOST_READ]:
        rates = {rank: _rates(reader, step) for rank, reader in readers.items()}
        first = next(iter(rates.values()))
        for name in first:
            values = {rank: found[name] for rank, found in rates.items() if name in found}
            if len(values) == len(readers) and len(set(values.values())) > 1:
                return step, values
    return None


def _rates(reader: Reader, step: int) -> dict[str, float]:
    scalars = reader.steps.head(step).scalars
    return {name: value for name, value in scalars.items() if name == "lr" or name.startswith("lr/")}


def _scheduler(readers: Mapping[int, Reader]) -> Source | None:
    """The line that steps a scheduler, on whichever rank does it."""
    for step in _common(readers)[:MOST_READ]:
        for reader in readers.values():
            for event in reader.steps.head(step).events:
                if event.kind == "scheduler_step" and event.source is not None:
                    return event.source
    return None


def fed_alike(readers: Mapping[int, Reader]) -> list[Finding]:
    """A finding when all ranks of a data-parallel training are fed the very same batches."""
    wrapper = _averages(readers)
    if wrapper is None:
        return []
    seen: list[Fed] = []
    first = -1
    for step in _common(readers)[:LOOKED_AT]:
        fed = [_fed(reader, step) for reader in readers.values()]
        if not all(fed):
            continue
        if len(set(fed)) > 1:
            return []
        first = step if first < 0 else first
        seen.append(fed[0])
    if len(seen) < FEWEST or len(set(seen)) < 2:
        return []
    parts = next(iter(readers.values())).parts
    loader = next((part for part in parts if part.kind == "loader"), None)
    return [_say(len(readers), len(seen), first, loader, wrapper, _made(next(iter(readers.values()))))]


def _averages(readers: Mapping[int, Reader]) -> Part | None:
    """What averages gradients over all of these ranks."""
    if len(readers) < 2:
        return None
    found = [next((part for part in reader.parts if part.kind == "wrapper"), None) for reader in readers.values()]
    if any(part is None or part.settings.get("ranks") != len(readers) for part in found):
        return None
    return found[0]


def _fed(reader: Reader, step: int) -> Fed:
    """The inputs of a step's first forward passes, by numbers that two batches do not share by chance."""
    tensors = reader.tensors
    found = []
    for one in reader.steps.at(step).observations:
        info, stats = tensors.get(one.tensor), one.stats
        if info is None or info.kind != "input" or one.phase != "forward" or one.error is not None:
            continue
        values = tuple(float(value) for value in (stats.mean, stats.l2, stats.min, stats.max) if value is not None)
        if stats.count >= SMALLEST and len(values) == 4 and stats.min != stats.max:
            found.append((info.network, info.slot, values))
    return tuple(found)


def _common(readers: Mapping[int, Reader]) -> list[int]:
    return sorted(set.intersection(*(set(reader.steps.numbers) for reader in readers.values())))


def _made(reader: Reader) -> Source | None:
    """The line that makes what the network is given."""
    for step in reader.steps.numbers[:LOOKED_AT]:
        for event in reader.steps.head(step).events:
            if event.kind == "fed_by":
                return event.source
    return None


def _say(ranks: int, steps: int, first: int, loader: Part | None, wrapper: Part, made: Source | None) -> Finding:
    source = (loader.source if loader is not None else made) or wrapper.source
    divided = loader is not None and loader.settings.get("replicas") is not None
    sampler = loader.settings.get("sampler") if loader is not None else None
    because = (
        f"Its {sampler} was told of {loader.settings.get('replicas')} replica(s) and rank"
        f" {loader.settings.get('replica')}"
        if loader is not None and divided
        else f"The loader's {sampler} does not divide the data among ranks"
        if loader is not None
        else "Every rank draws with the same seed"
    )
    return Finding(
        fault="same_data_on_every_rank",
        category="distributed",
        title=f"all {ranks} ranks are fed the same batches",
        confidence=0.88,
        since_step=first,
        where=Where(
            op="DataLoader" if loader is not None else None,
            file=source.file if source else None,
            line=source.line if source else None,
            code=source.code or None if source else None,
        ),
        why=f"in each of {steps} steps that were compared the inputs were identical on all ranks, though other ones in"
        f" each step: every process computes the same gradients of the same data, and averaging them adds nothing."
        f" {because}, so {ranks} ranks do the work of one",
        evidence=(Evidence("steps compared, with identical inputs on all ranks", steps), Evidence("ranks", ranks)),
        fix=(
            "divide the data: DataLoader(…, sampler=DistributedSampler(dataset)), and sampler.set_epoch(epoch) in each"
            " epoch"
            if loader is not None
            else "seed what draws the data with the rank: torch.Generator().manual_seed(seed + rank)",
        ),
        confirm=("print the first sample of a batch on every rank: it is the same",),
    )
