"""What MindSpore adds to a crash: the cell, the stage, the line inside compiled code, and what the call was given."""

from __future__ import annotations

import ast
import re
from types import FrameType
from typing import Any

from mindspore import Tensor, nn

from tensight.frameworks.crash import Crash, Frame, Input, find_call, is_known, operands, value_of
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
        crash.operator = public_name(next(filter(None, operator.groups())))
        crash.late = crash.phase != "compile" and not _made_here(crash, frames)
    crash.message = _plain(crash.message)


def _made_here(crash: Crash, frames: list[Frame]) -> bool:
    """Whether the frames show the call of the operator that failed: operators run ahead of Python in PyNative mode."""
    if crash.operator in _SIGNS and crash.source is not None:
        return _SIGNS[crash.operator] in crash.source.code or crash.operator in crash.source.code
    names = {frame.f_code.co_name for frame, _, _ in frames}
    called = any(name in names for name in ("_run_op", "run_op_async", "construct", "__call__"))
    return called or (crash.source is not None and crash.operator in crash.source.code)


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
    running = [cell for cell in running if not isinstance(cell, OPTIMIZERS)]
    if not running:
        return
    innermost = running[-1]
    crash.module_type = type(innermost).__name__
    crash.module = ""
    for root in running:
        path = next((path for path, part in root.cells_and_names() if part is innermost), None)
        if path is not None:
            crash.module = path
            return


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
    for given in operands(expression):
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
