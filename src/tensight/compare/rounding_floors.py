"""How far rounding alone drives the outputs of each module, measured: a float64 twin, and a push by one last place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tensight.compare.noise import SINGLE, rounding
from tensight.compare.reference import Call
from tensight.compare.values import Held, measure
from tensight.frameworks.hands import Array, Hands, flat

_MOST = 500.0  # roundings; more is no rounding but a random number, and would hide faults
Heard = dict[tuple[str, int], list[Array]]


def measured(
    hands: Hands,
    model: Any,
    inputs: Sequence[Any],
    keywords: Mapping[str, Any],
    calls: Sequence[Call],
    tensors: Mapping[str, Array],
    dtypes: Mapping[str, str],
) -> tuple[list[Call], dict[str, Array], str]:
    """The calls with their floors, the model's outputs in float64, and in words how the floors were found."""
    known = {(call.path, call.call): [tensors[key] for key in call.outputs] for call in calls}
    streams: list[Heard] = []
    judge: dict[str, Array] = {}
    how = []
    double = hands.double(model)
    wide = _heard(hands, double, _wide(hands, inputs, model), _wide(hands, keywords, model))
    if wide is not None:
        streams.append(wide)
        judge = {str(place): array for place, array in enumerate(wide.get(("", 0), []))}
        how.append("a float64 twin")
    pushed = _pushed(hands, model)
    if pushed is not None:
        other = _heard(hands, pushed, _moved(hands, inputs, model), _moved(hands, keywords, model))
        if other is not None:
            streams.append(other)
            how.append("a push of inputs and weights by one last place")
    floors = []
    for call in calls:
        place = (call.path, call.call)
        least = max((rounding(dtypes[key]) for key in call.outputs), default=SINGLE)
        stream = max([least, *(apart(known[place], one.get(place, [])) for one in streams)])
        local = max(least, _local(hands, double, call, tensors, dtypes, known[place]))
        most = _MOST * least
        floors.append(msgspec.structs.replace(call, floor=min(stream, most), local=min(local, most)))
    return floors, judge, ", ".join(how) or "the dtype alone"


def apart(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest relative distance of two lists of outputs; 0 where they cannot be compared."""
    found = [0.0]
    for x, y in zip(ours, theirs):
        if x.size == y.size and x.dtype.kind in "fc" and x.size:
            error = measure(Held(x), Held(y)).distance(1.0).error
            found.append(error if np.isfinite(error) else 0.0)
    return max(found)


def _heard(hands: Hands, model: Any | None, inputs: Any, keywords: Any) -> Heard | None:
    if model is None:
        return None
    found: Heard = {}
    counts: dict[str, int] = {}

    def note(path: str, module: Any, arguments: Any, named: Any, result: Any) -> None:
        number = counts.get(path, 0)
        counts[path] = number + 1
        found[path, number] = [hands.numpy(tensor) for tensor in flat(hands, result)]

    try:
        with hands.hearing(model, note):
            hands.call(model, inputs, keywords)
    except Exception:  # not every operator has a float64 form: the dtype's own rounding must do then
        return None
    return found


def _local(
    hands: Hands, double: Any | None, call: Call, tensors: Mapping[str, Array], dtypes: Mapping[str, str], known: Any
) -> float:
    """The rounding of one module, called alone on its recorded inputs."""
    if double is None or not call.whole:
        return 0.0
    module = dict(hands.modules(double)).get(call.path)

    def made(key: str) -> Any:
        array = tensors[key]
        kind = "float64" if array.dtype.kind == "f" else dtypes[key]
        return hands.tensor(array.astype(kind) if kind == "float64" else array, kind, double)

    try:
        result = hands.call(module, _built(call.arguments, made), _built(call.keywords, made))
    except Exception:  # as above
        return 0.0
    return apart(known, [hands.numpy(tensor) for tensor in flat(hands, result)])


def _built(tree: Any, made: Callable[[str], Any]) -> Any:
    if "tensor" in tree:
        return made(tree["tensor"])
    if "tuple" in tree:
        return tuple(_built(one, made) for one in tree["tuple"])
    if "list" in tree:
        return [_built(one, made) for one in tree["list"]]
    if "dict" in tree:
        return {name: _built(one, made) for name, one in tree["dict"].items()}
    return tree["value"]


def _wide(hands: Hands, value: Any, model: Any) -> Any:
    return _each(hands, value, lambda array, dtype: hands.tensor(array.astype(np.float64), "float64", model))


def _moved(hands: Hands, value: Any, model: Any) -> Any:
    return _each(hands, value, lambda array, dtype: hands.tensor(push(array, dtype), dtype, model))


def _each(hands: Hands, value: Any, change: Callable[[Array, str], Any]) -> Any:
    """Inputs with every tensor of floats changed."""
    if hands.is_tensor(value):
        array = hands.numpy(value)
        return change(array, hands.dtype(value)) if array.dtype.kind == "f" else value
    if isinstance(value, Mapping):
        return {name: _each(hands, one, change) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_each(hands, one, change) for one in value)
    return value


def push(array: Array, dtype: str) -> Array:
    """Every value moved by one last place, up or down by turns; coarse dtypes, whose own rounding is the floor, stay.

    >>> push(np.array([1.0, 1.0], np.float32), "float32").tolist()
    [1.0000001192092896, 0.9999999403953552]
    """
    if dtype not in ("float32", "float64"):
        return array
    ends = np.where(np.arange(array.size).reshape(array.shape) % 2, -np.inf, np.inf).astype(array.dtype)
    moved: Array = np.nextafter(array, ends)
    return moved


def _pushed(hands: Hands, model: Any) -> Any | None:
    copied = hands.copy(model)
    if copied is None:
        return None
    for tensor in hands.weights(copied).values():
        array = hands.numpy(tensor)
        if array.dtype.kind == "f":
            hands.put(tensor, push(array, hands.dtype(tensor)))
    return copied
