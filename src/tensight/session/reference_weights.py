"""Weights of a reference, put into a model of this or the other framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensight.compare.checkpoints import rules
from tensight.compare.checkpoints.convert import candidates_for, mapped_name
from tensight.compare.reference import Recorded
from tensight.errors import UsageError
from tensight.frameworks.hands import Array, Hands


def carry_over(recorded: Recorded, hands: Hands, model: Any, mapping: Mapping[str, str]) -> list[str]:
    """Put every recorded weight into its place; returns the names of the reference that have none in the model."""
    ours = recorded.named("weights")
    places = hands.weights(model)
    pairs = paired(recorded, hands, model, mapping)
    missing = [name for name in places if name not in pairs.values() and not name.endswith("num_batches_tracked")]
    if missing:
        raise UsageError(_unpaired(missing, [name for name in ours if name not in pairs], recorded))
    for name, other in pairs.items():
        if ours[name].size != _count(places[other]):
            raise UsageError(
                f"{name} of shape {list(ours[name].shape)} does not fit {other} of shape {list(places[other].shape)}"
            )
    for name, other in pairs.items():
        hands.put(places[other], ours[name])
    return [name for name in ours if name not in pairs]


def _unpaired(missing: list[str], left: list[str], recorded: Recorded) -> str:
    """Which weights got no value, and how a mapping would look: with a name that is left over, if there is one."""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    slot = missing[0].rpartition(".")[2]
    other = next((name for name in left if name.rpartition(".")[2] == slot), left[0] if left else "name.there")
    return (
        f"{missing[0]}{more} of the model {'have' if more else 'has'} no counterpart in {recorded.folder}:"
        f" give a mapping of names there to names here, of weights or of modules, e.g. {{{other!r}: {missing[0]!r}}}"
    )


def paired(recorded: Recorded, hands: Hands, model: Any, mapping: Mapping[str, str]) -> dict[str, str]:
    """Names of the reference's weights by those of the model: a mapping, the same name, a rule."""
    shapes: dict[str, rules.Shape] = {name: array.shape for name, array in _arrays(recorded).items()}
    places = {name: tuple(value.shape) for name, value in hands.weights(model).items()}
    moved = {}
    for name in shapes:
        said = mapped_name(name, mapping)
        moved[name] = name if said is None else said[0]
    candidates = candidates_for({moved[name]: shapes[name] for name in shapes}, recorded.notes.framework, hands.name)
    found: dict[str, str] = {}
    for name in shapes:
        wanted = [target.name for target in candidates[moved[name]] if target.name in places]
        if moved[name] in places:
            wanted.insert(0, moved[name])
        if wanted and wanted[0] is not None:
            found[name] = wanted[0]
    return found


def _arrays(recorded: Recorded) -> dict[str, Array]:
    return recorded.named("weights")


def _count(tensor: Any) -> int:
    total = 1
    for length in tensor.shape:
        total *= int(length)
    return total
