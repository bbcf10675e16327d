"""What MindSpore adds to a crash: the cell, the stage, the line inside compiled code, and what the call was given."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from types import FrameType
from typing import Any

from mindspore import Tensor, nn

from tensight.frameworks.crash import Crash, Frame, Input, find_call, is_known, operands, operator_of, value_of
from tensight.frameworks.mindspore.networks import OPTIMIZERS
from tensight.frameworks.mindspore.operators import public_name
from tensight.frameworks.mindspore.values import Unjudged, dtype_name, view
from tensight.frameworks.source import is_user_file, source_of

# Where MindSpore's compiler was in the user's code: '# 2 In file /home/me/train.py:12~14, 8~30'.
_COMPILED = re.compile(r"# (?:\d+ )?In file ([^\n]+?):(\d+)(?:~\d+)?, \d+~\d+")
_OPERATOR = re.compile(r"For '(\w+)'|operator\[(\w+)\]|op \[(\w+)\]|primitive\[(\w+)\]")
_DECORATION = re.compile(r"^(?:-{10,}|- Kernel select failed:|\s*)$")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
_BACKWARD = ("_pynative_func_grad_backward", "grad")
_COMPILERS = ("compile", "compile_and_run", "_build_graph", "_hash_args")


def add_to(crash: Crash, frames: list[Frame]) -> None:
    """Fill in what the frames of a traceback, and MindSpore's long message, show."""
    if not any("mindspore" in frame.f_code.co_filename for frame, _, _ in frames):
        return
    _cell(crash, frames)
    _stage(crash, frames)
    compiled = _COMPILED.findall(crash.message)
    find_call(crash, frames, _tensors)
    if compiled and crash.phase == "compile":
        users = [place for place in compiled if is_user_file(place[0])]
        if users:
            crash.source = source_of(users[-1][0], int(users[-1][1]))
            crash.call, crash.inputs = crash.source.code, []
    operator = _OPERATOR.search(crash.message)
    if operator:
        told = public_name(next(filter(None, operator.groups())))
        if crash.operator not in (told, "run_op_async"):  # the error came out in a later call, given other things
            _look_for(told, crash, frames)
        crash.operator = told
        crash.late = crash.phase != "compile" and not _made_here(crash, frames) and not _fits(crash)
    elif crash.phase == "backward" and crash.in_user_code and not crash.inputs:
        crash.inputs = _arguments(frames[-1][0])
    crash.message = _plain(crash.message)


def _made_here(crash: Crash, frames: list[Frame]) -> bool:
    """Whether the frames show the call of the operator that failed: operators run ahead of Python in PyNative mode."""
    if crash.operator in _SIGNS and crash.source is not None:
        return _SIGNS[crash.operator] in crash.source.code or crash.operator in crash.source.code
    names = {frame.f_code.co_name for frame, _, _ in frames}
    called = any(name in names for name in ("_run_op", "run_op_async", "construct", "__call__"))
    return called or (crash.source is not None and crash.operator in crash.source.code)


def _fits(crash: Crash) -> bool:
    """Whether the sizes that MindSpore complains of are those of what the running cell was given and holds."""
    sizes = {int(size) for size in re.findall(r"': (\d+)", crash.message.partition("but got")[2].partition("\n")[0])}
    shapes = [item.shape for item in crash.inputs if item.shape]
    return bool(sizes) and len(shapes) > 1 and sizes <= {size for shape in shapes for size in shape}


def _look_for(operator: str, crash: Crash, frames: list[Frame]) -> None:
    """What the failed operator was given: by the user's innermost line if it calls it, else by the running cell."""
    line = _call_in_line(operator, frames)
    if line is not None:
        crash.call, crash.inputs = line
    elif (cell := _given_to_cell(frames)) is not None:
        crash.call, crash.inputs = cell


def _call_in_line(operator: str, frames: list[Frame]) -> tuple[str, list[Input]] | None:
    for frame, line, _ in reversed(frames):
        if not is_user_file(frame.f_code.co_filename):
            continue
        text = linecache.getline(frame.f_code.co_filename, line).strip().removeprefix("return ")
        try:
            parts = list(ast.walk(ast.parse(text)))
        except SyntaxError:  # a statement of several lines
            return None
        calls = [part for part in parts if isinstance(part, (ast.Call, ast.BinOp)) and operator_of(part) == operator]
        found = _tensors(frame, calls[0]) if len(calls) == 1 else []
        return (ast.unparse(calls[0]), found) if found else None
    return None


def _given_to_cell(frames: list[Frame]) -> tuple[str, list[Input]] | None:
    """What the innermost cell was called with, under the names of its `construct`, and its own parameters."""
    for frame, _, _ in reversed(frames):
        cell, given = frame.f_locals.get("self"), frame.f_locals.get("args")
        if not isinstance(cell, nn.Cell) or not isinstance(given, tuple) or isinstance(cell, OPTIMIZERS):
            continue
        if frame.f_code.co_name == "__call__":
            names = list(inspect.signature(cell.construct).parameters)
            found: list[Input] = []
            for name, value in zip(names, given):
                found += _readable(name, value)
            for name, value in cell._params.items():
                found += _readable(f"self.{name}", value)
            return f"{type(cell).__name__}({', '.join(names)})", found
    return None


def _arguments(frame: FrameType) -> list[Input]:
    """Tensors that the function of this frame was called with: those of a `bprop`, or of a gradient's hook."""
    code = frame.f_code
    found: list[Input] = []
    for name in code.co_varnames[: code.co_argcount]:
        found += _readable(name, frame.f_locals.get(name))
    return found


def _readable(name: str, value: Any) -> list[Input]:
    """A tensor as it is told; nothing where it is the result of what failed, since asking raises the error again."""
    try:
        return [item for item in _described(name, value) if item.shape is not None]
    except (RuntimeError, ValueError, TypeError):
        return []


def _plain(message: str) -> str:
    """The message without MindSpore's ruled lines and what is for its own developers."""
    kept = [line for line in message.partition("- C++ Call Stack")[0].splitlines() if not _DECORATION.match(line)]
    return "\n".join(kept) or message


def _cell(crash: Crash, frames: list[Frame]) -> None:
    running = [
        frame.f_locals["self"]
        for frame, _, _ in frames
        if frame.f_code.co_name in ("construct", "__call__", "_run_construct", "_complex_call")
        and isinstance(frame.f_locals.get("self"), nn.Cell)
    ]
    crash.inside([one for one in running if not isinstance(one, OPTIMIZERS)], lambda cell: cell.cells_and_names())


def _stage(crash: Crash, frames: list[Frame]) -> None:
    for frame, _, _ in frames:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if is_user_file(file):
            continue
        owner = frame.f_locals.get("self")
        if isinstance(owner, OPTIMIZERS):
            crash.phase = "update"
        elif name in _COMPILERS and "api.py" in file:
            crash.phase = "compile"
        elif name in _BACKWARD and ("composite" in file or "api.py" in file):
            crash.phase = "backward"
        elif "dataset" in file and name in ("__next__", "_get_next"):
            crash.phase = "data"
    if not crash.phase and crash.module is not None:
        crash.phase = "forward"


def _tensors(frame: FrameType, expression: ast.expr) -> list[Input]:
    found: list[Input] = []
    for given in {ast.unparse(given): given for given in operands(expression)}.values():  # each name once
        value = value_of(given, frame)
        if is_known(value):
            try:
                found += _described(ast.unparse(given), value)
            except (RuntimeError, ValueError, TypeError):
                continue  # the result of the operator that failed: asking for it raises its error again
    return found if any(item.shape is not None for item in found) else []


def _described(name: str, value: Any) -> list[Input]:
    if isinstance(value, Tensor):
        dtype, shape = dtype_name(value), tuple(value.shape)
        words = f"{dtype}[{', '.join(map(str, shape))}]"
        if dtype in ("int32", "int64") and value.size:
            try:
                array = view(value)
                words += f", from {int(array.min())} to {int(array.max())}"
            except Unjudged:
                pass
        return [Input(name, words, shape, dtype)]
    if isinstance(value, nn.Cell):
        return []
    if isinstance(value, (list, tuple)) and len(value) <= 64:
        found = []
        for index, item in enumerate(value):
            if isinstance(item, Tensor):
                found += _described(f"{name}[{index}]", item)
        return found[:8]
    if isinstance(value, (int, float)):
        return [Input(name, repr(value))]
    return []
