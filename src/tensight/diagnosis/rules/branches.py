"""Branches of a network that run beside the trained ones and never get a gradient."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry

CUTS = frozenset({"detach", "no_grad", "data", "numpy"})


def cut_branch(case: Case, network: str, place: str, running: Sequence[Entry]) -> list[Entry]:
    """The parameters of a branch that a line of the network's own forward cuts off; none where that is not sure.

    `place` is the module that holds all running parameters without a gradient. It must be a branch of its own, with
    nothing trained in it; it never moves, so it is no running mean; and it is no copy of another branch, which may be
    brought up to date now and then.
    """
    silent = [entry for entry in running if entry.gradient < 0]
    inside = [entry for entry in case.ledger.of(network) if within(entry, place)]
    if not place or len(inside) != len(silent) or any(entry.first_move >= 0 for entry in silent):
        return []
    holder = place.rpartition(".")[0]
    cuts = [
        event
        for _, event in case.noted.of("cut")
        if event.part == network
        and event.values.get("function") in CUTS
        and isinstance(module := event.values.get("module"), str)
        and (module in (holder, place) or module.startswith(f"{place}."))
    ]
    return silent if cuts and not _is_copy(case, network, place, silent) else []


def within(entry: Entry, place: str) -> bool:
    return entry.parameter.module == place or entry.parameter.module.startswith(f"{place}.")


def _is_copy(case: Case, network: str, place: str, silent: Sequence[Entry]) -> bool:
    """Whether another branch has the same parameters with the same values at first."""
    own = {entry.name.removeprefix(f"{place}."): _size(case, entry) for entry in silent}
    others = [entry for entry in case.ledger.of(network) if not within(entry, place)]
    for path in {path for entry in others for path in _holders(entry.parameter.module)}:
        theirs = {entry.name.removeprefix(f"{path}."): _size(case, entry) for entry in others if within(entry, path)}
        if theirs == own:
            return True
    return False


def _holders(module: str) -> list[str]:
    """
    >>> _holders("encoder.layers.0")
    ['encoder', 'encoder.layers', 'encoder.layers.0']
    """
    pieces = module.split(".")
    return [".".join(pieces[: length + 1]) for length in range(len(pieces))]


def _size(case: Case, entry: Entry) -> tuple[tuple[int, ...], float | None]:
    """Shape, and mean magnitude before the first update."""
    for kept in case.beginning:
        stats = kept.weight_before(entry) or kept.weight(entry)
        if stats is not None:
            return tuple(entry.parameter.shape), stats.abs_mean
    return tuple(entry.parameter.shape), None
