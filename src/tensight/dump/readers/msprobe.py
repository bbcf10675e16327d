"""Dumps of msprobe: `step{N}/rank{R}/dump.json` with statistics, stacks and modules; tensors lie beside it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare.checkpoints import torch_file
from tensight.dump.anf import source_line
from tensight.dump.readers import npy
from tensight.dump.readers.base import Dumped, Found, Raw, Tree, numbered, rank_of
from tensight.dump.readers.mindspore_names import activation_of
from tensight.errors import DamagedError, TensightError
from tensight.records import Kind, Phase, Source, Stats, TensorInfo

_MOST_TEXT = 2 << 30
_MOST_DEEP = 8
_LONGEST = 4096  # characters of a line of a stack that are looked at
_LINE = re.compile(r"File (.+?), line (\d{1,9}), in (.*?)(?:, ?\s*\n?\s*(.*))?$", re.DOTALL)
_PLACES = {"input_args": "input", "input_kwargs": "input", "input": "input", "output": "output"}


def read(tree: Tree, found: Found) -> Iterator[Dumped]:
    for folder, files in tree.all():
        if "dump.json" not in files:
            continue
        facts = _json(folder / "dump.json", files, found, tree)
        data = facts.get("data") if isinstance(facts, dict) else None
        if not isinstance(data, dict):
            if facts is not None:
                found.trouble(f"{tree.name(folder / 'dump.json')} has no data of msprobe")
            continue
        found.framework = found.framework or _framework(facts)
        stacks = _stacks(_json(folder / "stack.json", files, found, tree))
        parents = _parents(_json(folder / "construct.json", files, found, tree))
        rank = rank_of(tree.root, folder, "rank")
        step = next((n for part in reversed(folder.parts) if (n := numbered(part, "step")) is not None), 0)
        tensors = folder / "dump_tensor_data"
        values = tree.folders.get(tensors, {})
        for order, (name, call) in enumerate(data.items()):
            tree.visit.at(folder / "dump.json")  # again, after the files with its values
            if not isinstance(call, dict):
                found.trouble(f"{tree.name(folder / 'dump.json')}: {name[:80]!r} is no call")
                continue
            for place, info, facts_of in _tensors(name, call, stacks.get(name), parents):
                try:
                    raw = _values(facts_of, tensors, values, found, tree)
                    shape = raw.shape if raw is not None else info.shape
                    stats = _stats(facts_of, shape)
                except (ValueError, TypeError, OverflowError) as error:
                    found.trouble(f"{tree.name(folder / 'dump.json')}: {name[:80]} {place}: {error}")
                    continue
                yield Dumped(rank, step, float(order), info, raw, stats, name)


def _json(path: Path, files: Mapping[str, int], found: Found, tree: Tree) -> Any:
    if path.name not in files:
        return None
    if files[path.name] > _MOST_TEXT:
        found.trouble(f"{tree.name(path)} has more than {_MOST_TEXT:,} bytes and was left out")
        return None
    tree.visit.at(path, files[path.name])
    try:
        return json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        found.trouble(f"{tree.name(path)} cannot be read: {error or 'it takes too much memory'}")
        return None


def _framework(facts: Mapping[str, Any]) -> str:
    name = str(facts.get("framework", "pytorch"))
    return "torch" if "torch" in name.lower() else "mindspore"


def _tensors(
    name: str, call: Mapping[str, Any], source: Source | None, parents: Mapping[str, str]
) -> Iterator[tuple[str, TensorInfo, Mapping[str, Any]]]:
    """The tensors of a call, each with its record."""
    at = _Call(name, parents)
    for key, value in call.items():
        if key == "parameters" or at.gradients:
            items = value.items() if key == "parameters" and isinstance(value, dict) else [(key, value)]
            for parameter, one in items:
                for _, facts in _leaves(one, ""):
                    kind: Kind = "gradient" if at.gradients else "weight"
                    yield parameter, at.info(kind, str(parameter), facts, source), facts
        elif key in _PLACES:
            for slot, facts in _leaves(value, _PLACES[key]):
                yield slot, at.info(at.kind(_PLACES[key]), slot, facts, source), facts


class _Call:
    """A name such as 'Module.conv1.Conv2d.forward.0' or 'Functional.relu.3.backward' taken apart."""

    def __init__(self, name: str, parents: Mapping[str, str]) -> None:
        parts = name.split(".")
        self.gradients = "parameters_grad" in parts[-2:]
        self.phase: Phase = "backward" if "backward" in parts[-2:] or self.gradients else "forward"
        self.is_module = parts[0] in ("Module", "Cell")
        self.call = next((int(p) for p in reversed(parts) if p.isdecimal() and p.isascii() and len(p) < 10), 0)
        words = [part for part in parts[1:] if part not in ("forward", "backward", "parameters_grad")]
        if self.is_module:
            if words and words[-1].isdecimal():
                words.pop()
            self.type = words.pop() if words else ""
            self.op = ""
            self.module = ".".join(words)
        else:
            named = [word for word in words if not word.isdecimal()]
            self.op = ".".join((parts[0].lower(), *named)) or name
            self.type = ""
            self.module = _module_path(parents.get(name, ""))

    def kind(self, place: str) -> Kind:
        if self.phase == "backward":
            if self.is_module:
                # what comes into a backward pass is the gradient of the output
                return "output_gradient" if place == "input" else "input_gradient"
            return "module_input" if place == "input" else "operator_gradient"
        if place == "input":
            return "module_input"
        if activation_of(self.type or self.op.rpartition(".")[2]):
            return "activation"
        return "output" if self.is_module else "operator"

    def info(self, kind: Kind, slot: str, facts: Mapping[str, Any], source: Source | None) -> TensorInfo:
        shape = facts.get("shape")
        plain = isinstance(shape, list) and all(type(one) is int and 0 <= one < 1 << 62 for one in shape)
        activation = activation_of(self.type or self.op.rpartition(".")[2]) if kind == "activation" else ""
        if kind in ("output_gradient", "input_gradient"):
            place, _, rest = slot.partition(".")
            slot = f"{'output' if place == 'input' else 'input'}.{rest}"
        return TensorInfo(
            id=-1,
            kind=kind,
            node=self.module,
            slot=slot,
            network="model",
            call=0 if kind in ("weight", "gradient") else self.call,
            shape=tuple(shape) if plain and isinstance(shape, list) else (),
            dtype=str(facts.get("dtype", "")).rpartition(".")[2].lower()[:40],
            type=activation or self.type,
            op=self.op,
            phase="update" if kind == "weight" else self.phase,
            source=source,
        )


def _module_path(name: str) -> str:
    return _Call(name, {}).module if name.startswith(("Module.", "Cell.")) else ""


def _leaves(value: Any, slot: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Descriptions of tensors inside lists and dictionaries, with their places."""
    if depth > _MOST_DEEP:
        return
    if isinstance(value, dict):
        if "type" in value and "shape" in value and "dtype" in value:
            yield (slot if depth else f"{slot}.0"), value
        elif "type" not in value:
            for key, item in value.items():
                yield from _leaves(item, f"{slot}.{key}", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{slot}.{index}", depth + 1)


def _stats(facts: Mapping[str, Any], shape: tuple[int, ...]) -> Stats | None:
    found = {key: _number(facts.get(key)) for key in ("Max", "Min", "Mean", "Norm")}
    if all(value is None for value in found.values()):
        return None
    numbers = [value for value in found.values() if value is not None]
    count = math.prod(shape)
    nan = int(any(math.isnan(one) for one in numbers)) if count else 0
    above = int(found["Max"] == math.inf) if count else 0
    below = int(found["Min"] == -math.inf) if count else 0
    return Stats(
        count=max(count, nan + above + below),
        nan=nan,
        pos_inf=above,
        neg_inf=below,
        min=_finite(found["Min"]),
        max=_finite(found["Max"]),
        mean=_finite(found["Mean"]),
        l2=_finite(found["Norm"]),
    )


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool) or value in ("", "N/A"):
        return None
    return float(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _values(facts: Mapping[str, Any], folder: Path, files: Mapping[str, int], found: Found, tree: Tree) -> Raw | None:
    """The file with a tensor's values; None when there is none, or it is refused."""
    name = facts.get("data_name")
    if not isinstance(name, str) or name in ("", "-1"):
        return None
    if name not in files:  # also a name that is a path to somewhere else
        found.trouble(f"{tree.name(folder)} has no file {name[:120]!r}")
        return None
    tree.visit.at(folder / name, 0 if name.endswith(".npy") else files[name])
    try:
        return npy.header(folder / name, files[name]) if name.endswith(".npy") else torch_values(folder / name)
    except (TensightError, OSError) as error:
        found.trouble(f"{tree.name(folder)}: {error}")
        return None


def torch_values(path: Path) -> Raw:
    """Where the one tensor of a .pt file lies in it."""
    entry = next(iter(torch_file.read(path).entries.values()))
    held = entry.held()
    if held.size and not held.flags.c_contiguous:
        raise DamagedError(f"{path.name} holds its values in strides, so only its statistics were read")
    base: Any = held
    while isinstance(base.base, np.ndarray):
        base = base.base
    offset = held.__array_interface__["data"][0] - base.__array_interface__["data"][0] if held.size else 0
    return Raw(path, int(offset), entry.dtype, held.dtype.str, entry.shape).check(path.stat().st_size)


def _stacks(value: Any) -> dict[str, Source]:
    """The user's line of each call. Newer versions list calls by stack, older ones stacks by call."""
    found: dict[str, Source] = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], list) and isinstance(item[1], list):
            names, lines = item
        else:
            names, lines = [key], item
        source = _user_line(lines)
        if source is not None:
            found.update((str(name), source) for name in names)
    return found


def _user_line(lines: Any) -> Source | None:
    parsed = [one for one in map(_line, lines if isinstance(lines, list) else [lines]) if one is not None]
    return next((one for one in parsed if "site-packages" not in one.file), parsed[0] if parsed else None)


def _line(text: Any) -> Source | None:
    if not isinstance(text, str):
        return None
    text = text[:_LONGEST]
    found = _LINE.match(text, max(0, text.find("File ")))
    if found is None:
        return source_line(text)
    return Source(found[1].strip('"'), int(found[2]), (found[4] or "").strip(), found[3].strip())


def _parents(value: Any) -> dict[str, str]:
    return {str(k): v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}
