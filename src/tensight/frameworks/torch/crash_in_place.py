"""A backward that finds a value changed in place: which operator kept it, and which line of the user's changed it.

The graph of the loss still stands when the error is caught: an operator whose kept value was changed refuses to show it
again, as it refused in the backward. Who changed the value left no trace but a count and the name of the operator that
wrote last. Yet in the user's own files there are few places that change tensors in place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tensight.frameworks.crash import Crash, Frame, is_known, value_of
from tensight.frameworks.in_place import Change, changes, words
from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.torch.wrappers import walk

_CHANGED = "modified by an inplace operation"
_WRITER = re.compile(r"output \d+ of (\w+?)(?:Backward\d*)?, is at version")
_VIEWS = ("TBackward", "TransposeBackward", "ViewBackward", "AsStridedBackward", "UnsafeViewBackward")
_MOST_NODES = 100_000
_SHOWN = 4

_Parts = list[tuple[str, nn.Module]]


def add_to(crash: Crash, frames: list[Frame]) -> None:
    """Name the operator that kept the value and, where the user's files leave but one, the line that changed it."""
    if _CHANGED not in crash.message:
        return
    parts = _parts(frames)
    keeper = _keeper(_root(frames))
    if keeper is not None:
        crash.kept_by = words(re.sub(r"Backward\d*$", "", keeper.name()))
    weight = _weight(keeper)
    if weight is not None:
        crash.weight = _name(weight, parts)
        found = list(_updates(frames, weight))
    else:
        found = [change for change in _written(frames, parts) if _may_be(change, frames, parts)]
        writer = _WRITER.search(crash.message)
        # a write that autograd did not see leaves the name of the operator before it
        found = [change for change in found if writer is not None and change.is_by(writer[1])] or found
    crash.operator = crash.kept_by or crash.operator
    crash.changes = [source_of(change.file, change.line, change.function) for change in found[:_SHOWN]]
    if len(found) == 1:
        crash.source, crash.seen_at = crash.changes[0], crash.source
        crash.operator = found[0].operator or crash.operator
        owners = [path for path, part in parts if type(part).__name__ == found[0].owner]
        if owners:
            crash.module_type = found[0].owner
            crash.module = owners[0] if len(owners) == 1 else None


def _root(frames: list[Frame]) -> Any:
    """Where the graph begins that the backward went through."""
    for frame, _, _ in frames:
        if is_user_file(frame.f_code.co_filename):
            continue
        for name in ("self", "tensors", "outputs", "t_outputs"):
            value = frame.f_locals.get(name)
            for one in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(one, torch.Tensor) and one.grad_fn is not None:
                    return one.grad_fn
    return None


def _keeper(root: Any) -> Any:
    """Of the operators that refuse to show what they kept since it was changed, the one a backward comes to first."""
    seen = {root} - {None}
    waiting = [*seen]
    found = []
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if any(_refusals(node)):
            found.append(node)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return max(found, key=lambda node: node._sequence_nr(), default=None)


def _refusals(node: Any) -> Iterator[str]:
    """What an operator says of each value that it kept and finds changed."""
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                getattr(node, name)
            except Exception as error:
                if _CHANGED in str(error):
                    yield str(error)


def _weight(keeper: Any) -> torch.Tensor | None:
    """The weight that an operator was given and that it finds changed, if it is one."""
    for node, _ in keeper.next_functions if keeper is not None else ():
        while node is not None and node.name().startswith(_VIEWS):
            node = node.next_functions[0][0]
        weight = getattr(node, "variable", None)
        # matrices alone are kept: of a bias nobody needs the value
        if isinstance(weight, torch.Tensor) and weight.ndim > 1 and _holds(keeper, weight):
            return weight
    return None


def _holds(keeper: Any, weight: torch.Tensor) -> bool:
    """Whether what the operator refuses to show has the size of the weight, either way round."""
    for said in _refusals(keeper):
        shape = re.search(r"\[torch\.\w+ \[([\d, ]*)\]\]", said)
        sizes = [int(size) for size in shape[1].split(",")] if shape and shape[1] else []
        if sorted(sizes) == sorted(weight.shape):
            return True
    return False


def _name(weight: torch.Tensor, parts: _Parts) -> str:
    for path, part in parts:
        for name, one in part._parameters.items():
            if one is weight:
                return f"{path}.{name}" if path else name
    return "a weight"


def _parts(frames: list[Frame]) -> _Parts:
    """The networks that the user's frames know, with their parts, each by its longest path."""
    found: dict[int, tuple[str, nn.Module]] = {}
    for frame, _, _ in frames:
        if is_user_file(frame.f_code.co_filename):
            for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                for path, part in walk(value) if isinstance(value, nn.Module) else ():
                    known = found.get(id(part))
                    if known is None or len(path) > len(known[0]):
                        found[id(part)] = (path, part)
    return list(found.values())


def _written(frames: list[Frame], parts: _Parts) -> Iterator[Change]:
    """Every statement in the user's files of these frames and parts that changes something in place."""
    files = [frame.f_code.co_filename for frame, _, _ in frames]
    for _, part in parts:
        code = getattr(type(part).forward, "__code__", None)
        files += [code.co_filename] if code is not None else []
    for file in dict.fromkeys(files):
        if is_user_file(file):
            yield from changes(file)


def _updates(frames: list[Frame], weight: torch.Tensor) -> Iterator[Change]:
    """Where the user's frames call an optimizer that updates this weight."""
    for frame, _, _ in frames:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        for change in changes(file, calls=("step",)) if is_user_file(file) else ():
            if change.operator == "step" and change.function == function and change.target is not None:
                value = value_of(change.target, frame)
                groups = value.param_groups if isinstance(value, torch.optim.Optimizer) else ()
                if any(one is weight for group in groups for one in group["params"]):
                    yield change


def _may_be(change: Change, frames: list[Frame], parts: _Parts) -> bool:
    """Whether it may have changed a tensor of the graph: where the variable still stands, it tells."""
    target = change.target
    if target is None:
        return True
    if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self":
        owners = [part for _, part in parts if type(part).__name__ == change.owner]
        held = [getattr(part, target.attr, None) for part in owners]
        return not owners or any(isinstance(value, torch.Tensor) for value in held)
    for frame, _, _ in frames:
        if (frame.f_code.co_filename, frame.f_code.co_name) == (change.file, change.function):
            value = value_of(target, frame)
            if is_known(value):
                return isinstance(value, torch.Tensor) and value._version > 0
    return True
