"""What is said when ranks differ where they should not: the same live and when a run is read."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.records import Event, Evidence, Finding, Part, Where

NOT_AVERAGED = "gradients_not_averaged"
DIVERGE = "replicas_diverge"
OUT_OF_ORDER = "collectives_out_of_order"
AT_FIRST = "weights differ before the first update"  # the evidence by which such a finding is known


def conclude(event: Event, parts: Iterable[Part]) -> Finding:
    """The finding that a difference between ranks stands for, where it is found by reading a run."""
    special = {
        "gradient": not_averaged,
        "forgotten": _forgotten,
        "single": _never_averaged,
        "start": _apart_at_first,
        "collective": out_of_order,
    }
    if event.values.get("left_out") and event.values.get("kind") in ("gradient", "weight"):
        return _update_left_out(event, _wrapper(parts))
    if event.values.get("kind") == "exchanged":
        return _not_written_back(event, next((part for part in parts if part.kind == "exchange"), None))
    return special.get(str(event.values.get("kind")), diverged)(event, _wrapper(parts))


def _wrapper(parts: Iterable[Part]) -> Part | None:
    return next((part for part in parts if part.kind == "wrapper"), None)


def not_averaged(event: Event, wrapper: Part | None) -> Finding:
    name, step = str(event.values.get("name", "")), _step(event)
    return Finding(
        fault=NOT_AVERAGED,
        category="distributed",
        title=f"the gradient of {name} is not averaged between ranks",
        confidence=0.9,
        since_step=step,
        where=_where(event, wrapper),
        why=(
            f"before the update of step {step} the gradient of {name}{_more(event)} was not the same on all ranks:"
            f" {_ranks(event)}. {_keeps(wrapper)}, so after the backward pass every rank should hold the same gradients"
        ),
        evidence=_evidence(event),
        fix=(
            "wrap the model after all its parameters are there, and after they are frozen or thawed",
            "leave ddp.no_sync() before the last backward pass of a step",
            "change gradients on every rank alike: with the same noise, the same clipping",
        ),
        confirm=(f"all_reduce the gradient of {name} before an update and compare it with the own one",),
    )


def diverged(event: Event, wrapper: Part | None) -> Finding:
    name, step, kind = str(event.values.get("name", "")), _step(event), str(event.values.get("kind", "weight"))
    what = {"buffer": f"the buffer {name}", "copy": f"{name} of an averaged copy"}.get(kind, name)
    agreed = event.values.get("agreed")
    before = "" if agreed is None else f" At the check of step {agreed} they still were the same."
    if kind == "alone":
        return _left_alone(event, wrapper, name, step)
    because = (
        "They diverge when a rank changes them by itself (an average or a checkpoint on one rank only, noise or a mask"
        " of its own), when its updates do not follow from averaged gradients, or when its memory fails"
    )
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title=f"ranks no longer agree: {what} differs between replicas",
        confidence=0.9,
        since_step=step,
        where=_where(event, wrapper),
        why=(
            f"after step {step} {what}{_more(event)} was not the same on all ranks, bit by bit: {_ranks(event)}."
            f"{before} {_keeps(wrapper)}, so every process should hold the same values. {because}"
        ),
        evidence=_evidence(event),
        fix=(
            "change weights and buffers on every rank alike, and only after the wrapper was made",
            "give every rank the same optimizer, learning rate and clipping",
            "when nothing in the program explains it, test the memory of the rank that differs",
        ),
        confirm=("broadcast it from rank 0 after a step and compare it with the own one",),
    )


def _apart_at_first(event: Event, wrapper: Part | None) -> Finding:
    """Replicas that differ before anything is trained."""
    name = str(event.values.get("name", ""))
    if wrapper is None or wrapper.type == "all_reduce":
        because = (
            "each rank has initialised (or loaded) its own weights, as with a seed of its own, and nobody has"
            " broadcast those of rank 0"
        )
        fix = "broadcast the weights of rank 0 before training: dist.broadcast(p.data, 0) for each"
    else:
        because = (
            f"{wrapper.type} gave all ranks the weights of rank 0 when it was made, so some rank has changed or loaded"
            " its own since then"
        )
        fix = f"load and initialise weights on every rank alike, and before {wrapper.type} is made"
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title=f"ranks start from different weights: {name} differs between replicas",
        confidence=0.92,
        since_step=_step(event),
        where=_where(event, wrapper),
        why=(
            f"before the first update {name}{_more(event)} was not the same on all ranks: {_ranks(event)}."
            f" {_keeps(wrapper)}, and equal updates of different weights never make them equal: {because}"
        ),
        evidence=(Evidence(AT_FIRST, True, _step(event)), *_evidence(event)),
        fix=(fix,),
        confirm=(f"broadcast {name} from rank 0 before the first step and compare it with the own one",),
    )


def _update_left_out(event: Event, wrapper: Part | None) -> Finding:
    """A rank that skips an update which the others make: from then on it is behind them."""
    name, step = str(event.values.get("name", "")), _step(event)
    ranks = str(event.values.get("left_out", "")).split()
    who = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title=f"{who} left out an update that the others made: replicas diverge",
        confidence=0.92,
        since_step=step,
        where=_where(event, wrapper),
        why=(
            f"up to the update of step {step} {who} made more backward passes than the other ranks for the same number"
            f" of updates: it skipped an update (a condition on its own loss, gradients or batch) that the others"
            f" made. From then on {name}{_more(event)} is not the same on all ranks: replicas are out of sync and"
            " diverge, and gradients of different steps are averaged with each other"
        ),
        evidence=_evidence(event),
        fix=("decide on every rank alike: all_reduce the loss or the condition before it is asked, then skip on all",),
        confirm=("count the calls of optimizer.step() on each rank: they differ",),
    )


def _forgotten(event: Event, wrapper: Part | None) -> Finding:
    """A parameter whose gradient is left out where gradients are averaged by hand."""
    name, step, agreed = str(event.values.get("name", "")), _step(event), event.values.get("agreed")
    since = agreed if isinstance(agreed, int) and step - agreed == 1 else step  # the update before made them differ
    return Finding(
        fault=NOT_AVERAGED,
        category="distributed",
        title=f"the gradient of {name} is never averaged between ranks",
        confidence=0.9,
        since_step=since,
        where=_where(event, wrapper),
        why=(
            f"gradients are averaged by hand (all_reduce), but that of {name}{_more(event)} was not among them: it was"
            f" the same on all ranks at first, and before the update of step {step} it was not: {_ranks(event)}. Each"
            " rank updates it by its own data alone, so the replicas diverge"
        ),
        evidence=_evidence(event),
        fix=(f"all_reduce the gradient of {name} too, and divide it by the number of ranks, before the update",),
        confirm=(f"broadcast {name} from rank 0 after a step and compare it with the own one",),
    )


def _never_averaged(event: Event, _: Part | None) -> Finding:
    """Ranks that begin alike and train each for itself."""
    name, step, agreed = str(event.values.get("name", "")), _step(event), event.values.get("agreed")
    since = agreed if isinstance(agreed, int) and step - agreed == 1 else step  # the update before made them differ
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title="nobody averages gradients: each rank trains its own replica, and they diverge",
        confidence=0.8,
        since_step=since,
        where=_where(event, None),
        why=(
            f"the ranks began with the same weights, and before the update of step {step} {name}{_more(event)} was not"
            f" the same on all of them: {_ranks(event)}. No wrapper (DistributedDataParallel) was made, and neither"
            " gradients nor weights were all-reduced in the whole run: each process trains by its own data alone, and"
            " its replica differs more and more from the others"
        ),
        evidence=_evidence(event),
        fix=(
            "wrap the model: DistributedDataParallel(model), and call the wrapper",
            "average gradients before each update: dist.all_reduce(p.grad); p.grad /= dist.get_world_size()",
        ),
        confirm=(f"broadcast {name} from rank 0 after a step and compare it with the own one",),
    )


def _not_written_back(event: Event, exchange: Part | None) -> Finding:
    name, step = str(event.values.get("name", "")), _step(event)
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title="ranks put their weights together, and still differ: the result is not written back",
        confidence=0.88,
        since_step=step,
        where=_where(event, exchange),
        why=(
            f"the weights of all ranks were summed (all_reduce) before step {step}, but after it {name}{_more(event)}"
            f" is not the same on all ranks: {_ranks(event)}. What is averaged is a copy, and nobody copies it into the"
            " parameters, so each process goes on with its own replica and they diverge"
        ),
        evidence=_evidence(event),
        fix=("write the mean back: p.copy_(mean / world_size) under torch.no_grad(), or all_reduce p.data itself",),
        confirm=(f"broadcast {name} from rank 0 after the exchange and compare it with the own one",),
    )


def _left_alone(event: Event, wrapper: Part | None, name: str, step: int) -> Finding:
    network = event.part or "a network"
    kind = wrapper.type if wrapper is not None else "a wrapper"
    return Finding(
        fault=DIVERGE,
        category="distributed",
        title=f"nobody averages the gradients of {network}: its replicas diverge",
        confidence=0.88,
        since_step=step,
        where=_where(event, wrapper),
        why=(
            f"{name} of {network}{_more(event)} was the same on all ranks at first, and before the update of step"
            f" {step} it was not: {_ranks(event)}. {kind} averages (all-reduces) gradients of what it wraps, but"
            f" {network} is trained without a wrapper: each process trains its own, and the replicas differ more and"
            " more"
        ),
        evidence=_evidence(event),
        fix=(f"wrap {network} too: DistributedDataParallel({network}); or all_reduce its gradients before its update",),
        confirm=(f"broadcast {name} from rank 0 after a step and compare it with the own one",),
    )


def out_of_order(event: Event, wrapper: Part | None) -> Finding:
    step, which = _step(event), str(event.values.get("name", "")).removeprefix("collective ")
    words = str(event.values.get("words") or "")
    return Finding(
        fault=OUT_OF_ORDER,
        category="distributed",
        title="ranks call collectives in different orders",
        confidence=0.85,
        since_step=step,
        where=Where(op=words.partition(" ")[0] or None),
        why=(
            f"in step {step} the ranks did not call the same collectives in the same order: {_ranks(event)}, first at"
            f" number {which}{f' ({words})' if words else ''}. A collective joins whatever the ranks bring at the same"
            " turn: where shapes fit, tensors that do not belong together are summed; where they do not, ranks hang"
        ),
        evidence=(Evidence("what the ranks called", words, step), *_evidence(event)),
        fix=(
            "go through tensors in the same order on every rank: a list, not a set, and no order of arrival",
            "call every collective on every rank, or on a group of its own",
        ),
        confirm=("TORCH_DISTRIBUTED_DEBUG=DETAIL checks that collectives fit together",),
    )


def _keeps(wrapper: Part | None) -> str:
    if wrapper is None:
        return "The tensor is placed whole on each of these ranks"
    if wrapper.type == "all_reduce":
        return "Gradients are averaged (all-reduced) by hand, which keeps replicas in sync only if they start alike"
    return f"{wrapper.type} keeps replicas in sync by averaging (all-reducing) gradients"


def _step(event: Event) -> int:
    step = event.values.get("step")
    return step if isinstance(step, int) else 0


def _more(event: Event) -> str:
    others = event.values.get("others")
    return f" (and {others} more)" if others else ""


def _ranks(event: Event) -> str:
    """
    >>> _ranks(Event("replicas_differ", values={"ranks": "0 2 3 | 1"}))
    'rank 1 differs from ranks 0, 2, 3'
    """
    sides = [side.split() for side in str(event.values.get("ranks", "")).split("|")]
    words = [f"rank{'s' if len(side) > 1 else ''} {', '.join(side)}" for side in sides]
    if len(sides) == 2:
        return f"{words[1]} differ{'' if len(sides[1]) > 1 else 's'} from {words[0]}"
    return " and ".join(words) + " all differ"


def _where(event: Event, wrapper: Part | None) -> Where:
    source = event.source or (wrapper.source if wrapper is not None else None)
    return Where(
        parameter=str(event.values.get("name", "")),
        network=event.part or None,
        file=source.file if source else None,
        line=source.line if source else None,
        code=source.code if source else None,
    )


def _evidence(event: Event) -> tuple[Evidence, ...]:
    return (
        Evidence("ranks that agree, the others behind |", str(event.values.get("ranks", "")), _step(event)),
        Evidence("tensors that differ", 1 + int(event.values.get("others") or 0), _step(event)),
    )
