"""What was found in a training and how much of it is watched."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.records import Coverage, Gap, Network, Part, StepRecord, TensorInfo

_MOST_NAMES = 3


class CoverageKeeper:
    """Gathers what was found; `coverage()` is the object of the report."""

    def __init__(self) -> None:
        self.networks: dict[str, Network] = {}
        self.parts: dict[tuple[str, str], Part] = {}
        self._gaps: dict[str, Gap] = {}

    def gap(self, what: str, reason: str, remedy: str) -> None:
        self._gaps[what] = Gap(what, reason, remedy)

    def coverage(self, tensors: dict[int, TensorInfo], seen: set[int]) -> Coverage:
        def names(kind: str) -> tuple[str, ...]:
            return tuple(part.name for part in self.parts.values() if part.kind == kind)

        return Coverage(
            models=tuple(f"{network.name} ({network.type})" for network in self.networks.values()),
            optimizers=names("optimizer"),
            losses=names("loss"),
            loaders=names("loader"),
            scalers=names("scaler"),
            schedulers=names("scheduler"),
            tensors=len(tensors.keys() - held_elsewhere(tensors) - _never_made(tensors, seen)),
            watched=len(seen),
            gaps=tuple(self._gaps.values()),
        )


def held_elsewhere(tensors: dict[int, TensorInfo]) -> set[int]:
    """Sharded tensors of which this rank holds nothing."""
    return {number for number, info in tensors.items() if info.shard is not None and 0 in info.shape}


def _never_made(tensors: dict[int, TensorInfo], seen: set[int]) -> set[int]:
    """Gradients that were waited for and never came: no loss asks for that output (the state of a recurrent layer)."""
    return {number for number in tensors.keys() - seen if tensors[number].kind == "output_gradient"}


def coverage_line(coverage: Coverage) -> str:
    """One line for the terminal.

    >>> coverage_line(Coverage(models=("net (Net)",), optimizers=("Adam",), tensors=10, watched=10))
    'coverage: found net (Net), Adam; watching 10 of 10 tensors'
    """
    found = [
        *coverage.models,
        *coverage.optimizers,
        *("a loss written out as an expression" if name == "expression" else name for name in coverage.losses),
        *coverage.loaders,
        *coverage.scalers,
        *coverage.schedulers,
    ]
    shown = found[:8] + ([f"{len(found) - 8} more"] if len(found) > 8 else [])
    line = f"coverage: found {', '.join(shown) or 'no model yet'}; "
    line += f"watching {coverage.watched} of {coverage.tensors} tensors"
    for gap in coverage.gaps:
        line += f"; not {gap.what}: {gap.reason}" + (f" ({gap.remedy})" if gap.remedy else "")
    return line


def step_check_line(record: StepRecord, tensors: dict[int, TensorInfo], networks: list[Network]) -> str:
    """Whether a full step works: forward, loss, how many of how many trainable parameters changed."""
    loss = record.loss
    trainable = sum(1 for net in networks for p in net.parameters if p.trainable and not p.buffer and not p.tied_to)
    trainable -= sum(1 for number in held_elsewhere(tensors) if tensors[number].kind == "weight")
    if not networks:  # tensors that are trained without a module
        trainable = sum(1 for info in tensors.values() if info.kind == "weight")
    moved = {
        seen.tensor: seen.stats.change.equal < seen.stats.count
        for seen in record.observations
        if tensors[seen.tensor].kind == "weight" and seen.stats.change is not None
    }
    changed = sum(moved.values())
    finite = loss is not None and loss == loss and abs(loss) != float("inf")
    spoken = "no loss seen" if loss is None else f"loss {loss:.6g}" + ("" if finite else " is not finite")
    line = f"first step: forward ran, {spoken}, {changed} of {trainable} trainable parameters changed"
    if not changed:
        return line + _why_nothing_changed(record)
    return line + _which(tensors[one].name for one, did in moved.items() if not did)


def _which(same: Iterable[str]) -> str:
    """
    >>> _which(["a", "b", "c", "d", "e"]), _which(["a"]), _which([])
    (', not a, b, c and 2 more', ', not a', '')
    """
    names = list(same)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f", not {', '.join(names[:_MOST_NAMES])}{more}" if names else ""


def _why_nothing_changed(record: StepRecord) -> str:
    """What is usual in a first step, so that nobody looks for a fault: a warm-up from 0, a scaler that still sinks."""
    updates = [event.values for event in record.events if event.kind == "optimizer_step"]
    if updates and all(values.get("skipped") for values in updates):
        return ": the gradients overflowed, so the scaler skipped this step"
    rates = [value for name, value in record.scalars.items() if name == "lr" or name.startswith("lr/")]
    if updates and rates and not any(rates):
        return ": its learning rate is 0"
    return ""
