"""What differs between two runs before any number of theirs is compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tensight.compare import words
from tensight.compare.alignment import Alignment, dialect, modules_of
from tensight.compare.moments import Moment
from tensight.compare.noise import between, rounding
from tensight.compare.sides import Side
from tensight.records import Part

_NOT_ASKED = frozenset(("groups", "loss_scale", "batches", "foreach", "name", "format", "data_format"))
_SIZES = frozenset(("in_features", "out_features", "in_channels", "out_channels", "normalized_shape"))
EXACT = 1e-9  # statistics of equal values differ by less
_MOST = 20


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not the same in both."""

    what: str
    a: Any
    b: Any


def check(a: Side, b: Side, alignment: Alignment, first: Iterable[Moment]) -> list[Difference]:
    """The list; `first` are the moments of the first step."""
    found: list[Difference] = []
    for name in ("framework", "framework_version", "python", "platform", "ranks"):
        _note(found, name, getattr(a.info, name), getattr(b.info, name))
    _parts(found, a, b)
    _modes(found, a, b)
    _modules(found, a, b, alignment)
    _parameters(found, a, b, alignment)
    _start(found, first)
    return found


def start_differs(moment: Moment) -> bool:
    """Whether a weight or input is not the same at the start: a transfer is exact."""
    coarse = moment.a.dtype != moment.b.dtype
    floor = max(rounding(moment.a.dtype), rounding(moment.b.dtype)) if coarse else EXACT
    return between(moment.stats_a, moment.stats_b, floor).ratio > (4 if coarse else 1)


def _note(found: list[Difference], what: str, a: Any, b: Any) -> None:
    if not words.same_value(a, b):
        found.append(Difference(what, a, b))


def _parts(found: list[Difference], a: Side, b: Side) -> None:
    for kind in ("optimizer", "loss", "loader", "scaler", "scheduler"):
        ours, theirs = ([part for part in side.parts if part.kind == kind] for side in (a, b))
        if len(ours) != len(theirs) and kind != "loader":
            found.append(Difference(f"{kind}s", [one.type for one in ours], [one.type for one in theirs]))
        for one, other in zip(ours, theirs):
            named = words.loss_of if kind == "loss" else words.kind_of
            if kind != "loader" or dialect(a) == dialect(b):
                if named(one.type) != named(other.type):
                    found.append(Difference(kind, one.type, other.type))
                _settings(found, f"{kind} {one.name}", one, other)


def _settings(found: list[Difference], what: str, a: Part, b: Part) -> None:
    ours, theirs = words.settings_of(a.settings, a.type), words.settings_of(b.settings, b.type)
    for name in ours:
        if name in theirs and name not in _NOT_ASKED:
            _note(found, f"{what}: {name}", ours[name], theirs[name])
    if words.kind_of(a.type) == words.kind_of(b.type) and a.kind == "optimizer":
        for name in ("momentum", "weight_decay"):  # an optimizer without it has it at 0
            if (name in ours) != (name in theirs) and (ours.get(name) or theirs.get(name)):
                found.append(Difference(f"{what}: {name}", ours.get(name), theirs.get(name)))


def _modes(found: list[Difference], a: Side, b: Side) -> None:
    for what, name in (("training mode", "training"), ("batch size", "batch")):
        ours, theirs = (_first_forward(side, name) for side in (a, b))
        if ours is not None and theirs is not None:
            _note(found, what, ours, theirs)


def _first_forward(side: Side, name: str) -> Any:
    for step in side.numbers[:1]:
        for event in side.head(step).events:
            if event.kind == "forward" and name in event.values:
                return event.values[name]
    return None


def _modules(found: list[Difference], a: Side, b: Side, alignment: Alignment) -> None:
    ours, theirs = modules_of(a), modules_of(b)
    for one, module in ours.items():
        other = theirs.get(alignment.b_of(one) or "") if alignment.b_of(one) is not None else None
        if other is None or (not one and words.kind_of(module.type) != words.kind_of(other.type)):
            continue
        name = one or "model"
        if words.kind_of(module.type) != words.kind_of(other.type):
            found.append(Difference(f"type of {name}", module.type, other.type))
        for key, a_value, b_value in setting_differences(a, b, one, alignment):
            found.append(Difference(f"{name}: {key}", a_value, b_value))
    only_a = [path for path in alignment.only_a if path in ours]
    only_b = [path for path in alignment.only_b if path in theirs]
    if only_a or only_b:
        found.append(Difference("modules without a counterpart", only_a[:_MOST], only_b[:_MOST]))


def setting_differences(a: Side, b: Side, path: str, alignment: Alignment) -> list[tuple[str, Any, Any]]:
    """Settings of a module that both runs know and that differ, sizes aside."""
    one = modules_of(a).get(path)
    other = modules_of(b).get(alignment.b_of(path) or "") if alignment.b_of(path) is not None else None
    if one is None or other is None:
        return []
    ours, theirs = words.settings_of(one.settings, one.type), words.settings_of(other.settings, other.type)
    return [
        (name, ours[name], theirs[name])
        for name in ours
        if name in theirs and name not in _NOT_ASKED | _SIZES and not words.same_value(ours[name], theirs[name])
        if name != "padding" or dialect(a) == dialect(b)  # MindSpore's is said by pad_mode
    ]


def _parameters(found: list[Difference], a: Side, b: Side, alignment: Alignment) -> None:
    ours, theirs = parameters_of(a, None), parameters_of(b, alignment)
    for key, shape in ours.items():
        if key in theirs and _without_ones(shape) != _without_ones(theirs[key]):
            found.append(Difference(f"shape of {'.'.join(key).strip('.')}", list(shape), list(theirs[key])))
    missing = [".".join(key).strip(".") for key in ours if key not in theirs and key[1] != "num_batches_tracked"]
    added = [".".join(key).strip(".") for key in theirs if key not in ours and key[1] != "num_batches_tracked"]
    if missing or added:
        found.append(Difference("parameters without a counterpart", missing[:_MOST], added[:_MOST]))


def parameters_of(side: Side, alignment: Alignment | None) -> dict[tuple[str, str], tuple[int, ...]]:
    """Shapes of parameters by module, as `a` calls it, and own name, in PyTorch's words."""
    found = {}
    for network in side.networks.values():
        for parameter in network.parameters:
            path, _, slot = parameter.name.rpartition(".")
            own = path if alignment is None else alignment.from_b.get(path)
            if own is not None:
                found[own, words.slot_of(slot)] = parameter.shape
    return found


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _start(found: list[Difference], first: Iterable[Moment]) -> None:
    differing: list[tuple[str, Moment]] = []
    for moment in first:
        if moment.stage in ("start", "input") and start_differs(moment):
            differing.append((moment.a.name if moment.stage == "start" else moment.a.kind, moment))
    weights = [(name, moment) for name, moment in differing if moment.stage == "start"]
    for name, moment in weights[:_MOST]:
        found.append(Difference(f"value of {name} at the start (l2)", moment.stats_a.l2, moment.stats_b.l2))
    if len(weights) > _MOST:
        found.append(Difference("more weights that differ at the start", len(weights) - _MOST, len(weights) - _MOST))
    for name, moment in differing:
        if moment.stage == "input":
            what = f"{name} of the first step (mean, l2)"
            found.append(
                Difference(what, [moment.stats_a.mean, moment.stats_a.l2], [moment.stats_b.mean, moment.stats_b.l2])
            )
    dtypes = {(m.a.dtype, m.b.dtype) for m in first if m.a.dtype != m.b.dtype and m.a.kind not in ("loss", "target")}
    for ours, theirs in sorted(dtypes):
        found.append(Difference("dtype", ours, theirs))
