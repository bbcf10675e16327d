"""From one framework's checkpoint to another's, by rules, a mapping file and the other side's own checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tensight.compare.checkpoints import Checkpoint, Entry, Plain, optimizers, rules, writer
from tensight.compare.checkpoints.torch_writing import write_tree
from tensight.errors import CheckpointError, UsageError
from tensight.files import replacing

_CONTAINERS = ("model", "state_dict", "model_state_dict", "net", "network", "module", "weights")
_WRAPPER = "module."  # DistributedDataParallel and DataParallel put it before every name


class Renamed(msgspec.Struct, frozen=True):
    """One tensor's way: `rule` says by what, '' when only copied; `sure` is False where names leave a doubt."""

    name: str
    to: str
    shape: tuple[int, ...]
    to_shape: tuple[int, ...]
    rule: str = ""
    sure: bool = True


class LeftOut(msgspec.Struct, frozen=True):
    """Something of the source that the result does not have."""

    name: str
    why: str


class Conversion(msgspec.Struct):
    """What became of every entry of the source."""

    source: str
    target: str
    framework: str
    tensors: list[Renamed] = []
    left_out: list[LeftOut] = []
    missing: list[str] = []  # names of `like` that the result does not have
    values: dict[str, Plain] = {}
    states: list[str] = []  # what of the optimizers was written, by its names in the target


def load_map(path: Path) -> dict[str, str]:
    """A mapping file: JSON, or lines `old = new`; a name or the path of a module on each side, '' leaves it out."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the mapping file {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the mapping file {path} cannot be read: it is no text in UTF-8") from error
    try:
        if path.suffix == ".json":
            found: Any = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError("it is no object")
            return {str(old): str(new or "") for old, new in found.items()}
        pairs = [line.split("#")[0] for line in text.splitlines()]
        lines = [pair.partition("=") for pair in pairs if pair.strip()]
        if any(not equals for _, equals, _ in lines):
            raise ValueError("a line has no '='")
        return {old.strip().strip("\"'"): new.strip().strip("\"'") for old, _, new in lines}
    except ValueError as error:
        raise UsageError(f"the mapping file {path} is neither JSON nor lines `old = new`: {error}") from error


def mapped_name(name: str, mapping: Mapping[str, str]) -> tuple[str, bool] | None:
    """The new name and whether it is final; None when the mapping does not speak of it.

    >>> mapped_name("encoder.0.weight", {"encoder": "backbone"})
    ('backbone.0.weight', False)
    """
    if name in mapping:
        return mapping[name], True
    path = name
    while path:
        path = path.rpartition(".")[0]
        if path in mapping:
            new, rest = mapping[path], name[len(path) + 1 :] if path else name
            return (f"{new}.{rest}" if new else ""), False
    return None


def network_part(checkpoint: Checkpoint) -> tuple[dict[str, Entry], dict[str, Entry], str]:
    """The network's own tensors by their names in the model, all others, and the prefix that was taken off."""
    others = optimizers.entries_of(checkpoint)
    own = {name: entry for name, entry in checkpoint.entries.items() if name not in others}
    prefix = ""
    for container in _CONTAINERS:
        if container in checkpoint.nested and any(name.startswith(container + ".") for name in own):
            prefix = container + "."
            break
    if prefix:
        others |= {name: entry for name, entry in own.items() if not name.startswith(prefix)}
        own = {name.removeprefix(prefix): entry for name, entry in own.items() if name.startswith(prefix)}
    if own and checkpoint.framework == "torch" and all(name.startswith(_WRAPPER) for name in own):
        own = {name.removeprefix(_WRAPPER): entry for name, entry in own.items()}
        prefix += _WRAPPER
    return own, others, prefix


def convert(
    checkpoint: Checkpoint,
    target: Path,
    *,
    names: str = "",
    mapping: Mapping[str, str] | None = None,
    like: Checkpoint | None = None,
    whole: bool = False,
) -> Conversion:
    """Write `target`, in the format of its ending; nothing of the source goes without being listed.

    `names` says whose names to use when the ending does not; `like` is a checkpoint of the target's model, which
    settles names and checks shapes; `whole` keeps optimizer states and plain values in a PyTorch file.
    """
    write, framework = writer(target)
    framework = names or framework or (like.framework if like else "") or checkpoint.framework
    own, others, prefix = network_part(checkpoint)
    done = Conversion(str(checkpoint.path), str(target), framework)
    known = {name: entry.shape for name, entry in (network_part(like)[0] if like else {}).items()}
    made: dict[str, Entry] = {}
    for name, choice in _targets(own, checkpoint.framework, framework, mapping or {}, known).items():
        entry = own[name]
        if choice.name is None:
            done.left_out.append(LeftOut(prefix + name, choice.rule))
            continue
        if choice.name in made:
            raise CheckpointError(f"{prefix + name} and another tensor would both be called {choice.name}: map one")
        if known and choice.name in known and known[choice.name] != choice.shape:
            raise CheckpointError(
                f"{name} of shape {list(entry.shape)} does not fit {choice.name} of shape {list(known[choice.name])}"
            )
        made[choice.name] = entry.renamed(choice.name, choice.shape)
        done.tensors.append(Renamed(prefix + name, choice.name, entry.shape, choice.shape, choice.rule, choice.sure))
    done.missing = [name for name in known if name not in made]
    renames = {row.name.removeprefix(prefix): row for row in done.tensors}
    beside, tree = optimizers.convert(checkpoint, others, framework, renames, done.left_out, LeftOut)
    flat_torch = write is writer(Path("x.pt"))[0]
    if flat_torch and not whole:
        done.left_out += [
            LeftOut(name, "no part of a state dictionary; --whole keeps it") for name in (*beside, *checkpoint.values)
        ]
    else:
        done.states = list(beside)
        found = optimizers.values_of(checkpoint)
        done.values = {name: value for name, value in found.items() if value is not None}
        done.left_out += [LeftOut(name, "it holds nothing (None)") for name in found if found[name] is None]
    done.left_out += [
        LeftOut(name, f"a {kind}, neither tensor nor plain value") for name, kind in checkpoint.unread.items()
    ]
    try:
        with replacing(target) as new:
            if flat_torch and whole:
                write_tree(new, {"model": made, **tree, **done.values})
            elif flat_torch:
                write(new, made.values(), {}, framework)
            else:
                write(new, (*made.values(), *beside.values()), done.values, framework)
    except OSError as error:
        raise CheckpointError(f"{target} cannot be written: {error.strerror or error}") from error
    return done


def _targets(
    own: Mapping[str, Entry], source: str, target: str, mapping: Mapping[str, str], known: Mapping[str, rules.Shape]
) -> dict[str, rules.Target]:
    shapes = {name: entry.shape for name, entry in own.items()}
    moved, final = dict.fromkeys(shapes, ""), {}
    for name in shapes:
        said = mapped_name(name, mapping)
        if said is None:
            moved[name] = name
        elif not said[0]:
            final[name] = rules.Target(None, shapes[name], "left out by the mapping file")
        elif said[1]:
            shape = known.get(said[0], shapes[name])
            if _count(shape) != _count(shapes[name]):
                raise CheckpointError(
                    f"{name} of shape {list(shapes[name])} does not fit {said[0]} of shape {list(shape)}"
                )
            final[name] = rules.Target(said[0], shape, "mapping file")
        else:
            moved[name] = said[0]
    candidates = candidates_for({moved[name]: shapes[name] for name in shapes if name not in final}, source, target)
    for name in shapes:
        if name not in final:
            final[name] = _settled(candidates[moved[name]], known)
    return {name: final[name] for name in shapes}


def candidates_for(shapes: Mapping[str, rules.Shape], source: str, target: str) -> dict[str, list[rules.Target]]:
    """What each name may be on the other side; unchanged where both sides are the same or unknown."""
    if source == "torch" and target == "mindspore":
        return rules.to_mindspore(shapes)
    if source == "mindspore" and target == "torch":
        return rules.to_torch(shapes)
    return {name: [rules.Target(name, shape)] for name, shape in shapes.items()}


def _settled(candidates: list[rules.Target], known: Mapping[str, rules.Shape]) -> rules.Target:
    for target in candidates:
        if target.name is not None and known.get(target.name) == target.shape:
            return target._replace(sure=True)
    return candidates[0]


def _count(shape: rules.Shape) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
