"""States of optimizers in checkpoints: PyTorch keeps them by number, MindSpore by the parameter's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from tensight.compare.checkpoints.entry import Checkpoint, Entry, Plain, of_array

# of one parameter: PyTorch's word → MindSpore's prefix
STATES = {"exp_avg": "moment1", "exp_avg_sq": "moment2", "momentum_buffer": "moments"}
_PREFIXES = {prefix: word for word, prefix in STATES.items()} | {
    "accum": "momentum_buffer",
    "adam_m": "exp_avg",
    "adam_v": "exp_avg_sq",
}
_ALONE = frozenset(("global_step", "learning_rate", "beta1_power", "beta2_power", "momentum"))
_OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optim", "opt", "optimizer_state")
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


class Moved(Protocol):
    """How a parameter was renamed."""

    @property
    def to(self) -> str: ...
    @property
    def to_shape(self) -> tuple[int, ...]: ...


def entries_of(checkpoint: Checkpoint) -> dict[str, Entry]:
    """The tensors of a checkpoint that belong to an optimizer."""
    if checkpoint.framework == "mindspore":
        return {
            name: entry
            for name, entry in checkpoint.entries.items()
            if name in _ALONE or (name.partition(".")[0] in (*_PREFIXES, "stat") and _of_parameter(name, checkpoint))
        }
    prefixes = tuple(f"{word}." for word in _OPTIMIZERS if word in checkpoint.nested)
    return {name: entry for name, entry in checkpoint.entries.items() if prefixes and name.startswith(prefixes)}


def values_of(checkpoint: Checkpoint) -> dict[str, Plain]:
    """Plain values that are not an optimizer's: epoch, best accuracy, …"""
    prefixes = tuple(f"{word}." for word in _OPTIMIZERS)
    return {name: value for name, value in checkpoint.values.items() if not name.startswith(prefixes)}


def convert(
    checkpoint: Checkpoint,
    states: Mapping[str, Entry],
    framework: str,
    renames: Mapping[str, Moved],
    left_out: list[Any],
    note: Any,
) -> tuple[dict[str, Entry], dict[str, Any]]:
    """States as entries of a flat file, and as the tree of a PyTorch file; what has no counterpart is noted."""
    if not states:
        return {}, {}
    if framework == checkpoint.framework or not framework:
        return {name: entry.renamed(name) for name, entry in states.items()}, _tree(states)
    if framework == "mindspore":
        return _to_mindspore(checkpoint, states, renames, left_out, note), {}
    return _to_torch(states, renames, left_out, note)


def _of_parameter(name: str, checkpoint: Checkpoint) -> bool:
    return name.partition(".")[2] in checkpoint.entries


def _tree(states: Mapping[str, Entry]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, entry in states.items():
        place: dict[Any, Any] = tree
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(int(part) if part.isdigit() else part, {})
        place[last] = entry
    return tree


def _to_mindspore(
    checkpoint: Checkpoint, states: Mapping[str, Entry], renames: Mapping[str, Moved], left_out: list[Any], note: Any
) -> dict[str, Entry]:
    parameters = [name for name in renames if not name.endswith(_BUFFERS)]
    made: dict[str, Entry] = {}
    for name, entry in states.items():
        parts = name.split(".")
        word = parts[-1]
        if len(parts) < 4 or parts[-3] != "state" or not parts[-2].isdigit():
            left_out.append(note(name, "MindSpore's optimizers keep no such state"))
            continue
        number = int(parts[-2])
        parameter = parameters[number] if number < len(parameters) else ""
        if word == "step":
            steps = int(entry.numpy().reshape(-1)[0])
            made.setdefault("global_step", of_array("global_step", np.array([steps], np.int32)))
            _powers(checkpoint, parts[0], steps, made)
            continue
        if word not in STATES or not parameter:
            left_out.append(note(name, "MindSpore's optimizers keep no such state"))
            continue
        row = renames[parameter]
        if entry.count != _count(row.to_shape):
            left_out.append(note(name, f"its shape is not that of {parameter}, the parameter of this number"))
            continue
        made[f"{STATES[word]}.{row.to}"] = entry.renamed(f"{STATES[word]}.{row.to}", row.to_shape)
    return made


def _powers(checkpoint: Checkpoint, optimizer: str, steps: int, made: dict[str, Entry]) -> None:
    for number in (0, 1):
        beta = checkpoint.values.get(f"{optimizer}.param_groups.0.betas.{number}")
        if isinstance(beta, float):
            name = f"beta{number + 1}_power"
            made.setdefault(name, of_array(name, np.array(beta**steps, np.float32)))


def _to_torch(
    states: Mapping[str, Entry], renames: Mapping[str, Moved], left_out: list[Any], note: Any
) -> tuple[dict[str, Entry], dict[str, Any]]:
    numbers = {
        name: number for number, name in enumerate(n for n, row in renames.items() if not row.to.endswith(_BUFFERS))
    }
    state: dict[int, dict[str, Any]] = {}
    flat: dict[str, Entry] = {}
    steps = states.get("global_step")
    for name, entry in states.items():
        prefix, _, parameter = name.partition(".")
        if name == "global_step" or name.endswith("_power"):
            continue
        if prefix not in _PREFIXES or parameter not in numbers:
            left_out.append(note(name, "PyTorch's optimizers keep no such state"))
            continue
        row = renames[parameter]
        moved = entry.renamed(f"optimizer.{_PREFIXES[prefix]}.{row.to}", row.to_shape)
        state.setdefault(numbers[parameter], {})[_PREFIXES[prefix]] = moved
        flat[moved.name] = moved
    for own in state.values():
        if steps is not None and "exp_avg" in own:
            own["step"] = of_array("step", np.array(float(steps.numpy().reshape(-1)[0]), np.float32))
    if not state:
        return {}, {}
    return flat, {
        "optimizer": {"state": dict(sorted(state.items())), "param_groups": [{"params": sorted(numbers.values())}]}
    }


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
