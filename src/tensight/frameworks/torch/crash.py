"""What PyTorch adds to a crash: the module, forward or backward, and the tensors the failed operator was given."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from tensight.frameworks.crash import (
    Crash,
    Frame,
    Input,
    failed_expression,
    find_call,
    is_known,
    operands,
    operator_of,
    value_of,
)
from tensight.frameworks.in_place import words
from tensight.frameworks.source import is_user_file
from tensight.frameworks.torch import crash_in_place
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.wrappers import walk

_BACKWARD = ("_engine_run_backward", "backward")
_PRIVATE = re.compile(
    r"[/\\]torch[/\\](?:.*[/\\])?_"
)  # where operators are written out in Python: no place a user knows
_NO_GRADIENT = re.compile(r"Parameter indices which did not receive grad for rank \d+: ([\d ]+)")
_NODE = re.compile(r"output \d+ of (\w+?)(?:Backward\d*)?,")


def add_to(crash: Crash, frames: list[Frame]) -> None:
    """Fill in what the frames of a traceback show of modules and tensors."""
    _module(crash, frames)
    _phase(crash, frames)
    public = _up_to_private(frames)
    if len(public) < len(frames) and public:  # the call that the user knows failed, not what it is made of
        expression = failed_expression(public[-1][0].f_code, *public[-1][1:])
        if expression is not None:
            crash.call, crash.operator = ast.unparse(expression), operator_of(expression)
    find_call(crash, public, _tensors)
    if "not NoneType" in crash.message:
        crash.nothing = _nothing(frames)
    _unused(crash, frames)
    node = _NODE.search(crash.message)
    if node:
        crash.operator = words(node[1])
    crash_in_place.add_to(crash, frames)


def _unused(crash: Crash, frames: list[Frame]) -> None:
    """Parameters that a wrapper waits for are told as numbers: it numbers those that need gradients."""
    told = _NO_GRADIENT.search(crash.message)
    wrapper = next((frame.f_locals["self"] for frame, _, _ in frames if _runs_module(frame)), None)
    if told is None or not isinstance(wrapper, nn.parallel.DistributedDataParallel):
        return
    ignored = getattr(wrapper, "parameters_to_ignore", ())
    names = [name for name, one in wrapper.module.named_parameters() if one.requires_grad and name not in ignored]
    chosen = [names[int(number)] for number in told[1].split() if int(number) < len(names)]
    crash.message += f"\nparameters without a gradient: {', '.join(chosen)}"


def _up_to_private(frames: list[Frame]) -> list[Frame]:
    """The frames up to where a public function of the framework goes into its private files."""
    last = max((i for i, (frame, _, _) in enumerate(frames) if is_user_file(frame.f_code.co_filename)), default=0)
    for index in range(last + 1, len(frames)):
        if _PRIVATE.search(frames[index][0].f_code.co_filename):
            return frames[:index]
    return frames


def _nothing(frames: list[Frame]) -> str:
    """Where the user's own lines have handed on a None: the outermost, for there it came from."""
    for frame, line, instruction in frames:
        if not is_user_file(frame.f_code.co_filename):
            continue
        expression = failed_expression(frame.f_code, line, instruction)
        for given in operands(expression) if isinstance(expression, ast.Call) else []:
            if value_of(given, frame) is None:
                return f"{ast.unparse(given)} is None in {Path(frame.f_code.co_filename).name}:{line}"
    return ""


def _module(crash: Crash, frames: list[Frame]) -> None:
    crash.inside([frame.f_locals["self"] for frame, _, _ in frames if _runs_module(frame)], walk)


def _runs_module(frame: FrameType) -> bool:
    return frame.f_code.co_name in ("forward", "_call_impl", "_wrapped_call_impl") and isinstance(
        frame.f_locals.get("self"), nn.Module
    )


def _phase(crash: Crash, frames: list[Frame]) -> None:
    for frame, _, _ in frames:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if function in _BACKWARD and not is_user_file(file):
            crash.phase = "backward"
            return
        if function == "step" and isinstance(frame.f_locals.get("self"), torch.optim.Optimizer):
            crash.phase = "update"
            return
        if function == "__next__" and "dataloader" in file:
            crash.phase = "data"
            return
    if crash.module is not None or torch.is_grad_enabled():
        crash.phase = "forward" if crash.module is not None else ""


def _tensors(frame: FrameType, expression: ast.expr) -> list[Input]:
    """The tensors that the failing expression of a frame was given, by the names they have there."""
    found: list[Input] = []
    for given in operands(expression):
        while not is_known(value := value_of(given, frame)) and _is_method(given) and not _is_index(expression):
            given = operands(given)[0]  # what a method was called on tells the most of its result
        if is_known(value):
            found += [one for one in _described(ast.unparse(given), value) if one not in found]
    return found if any(item.shape is not None for item in found) else []


def _is_method(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute)


def _is_index(expression: ast.expr) -> bool:
    """Looking something up is the script's own doing, whatever the key is made of."""
    return isinstance(expression, ast.Subscript)


def _described(name: str, value: Any) -> list[Input]:
    if isinstance(value, torch.Tensor):
        dtype, device = str(value.dtype).removeprefix("torch."), str(value.device)
        shape = tuple(value.shape)
        words = f"{dtype}[{', '.join(map(str, shape))}] on {device}"
        if value.dtype in (torch.int64, torch.int32) and type(value) in PLAIN and value.numel() and not value.is_meta:
            words += f", from {int(value.min())} to {int(value.max())}"
        return [Input(name, words, shape, dtype, device)]
    if isinstance(value, nn.Module):
        return []
    if isinstance(value, (list, tuple)) and len(value) <= 64:
        found = []
        for index, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                found += _described(f"{name}[{index}]", item)
        return found[:8]
    if isinstance(value, (int, float)):
        return [Input(name, repr(value))]
    return []
