"""What a traceback tells of a crash: the user's line, the call that failed and what it was given."""

from __future__ import annotations

import ast
import importlib
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

import msgspec

from tensight.frameworks.source import is_user_file, source_of
from tensight.records import Source

# framework's import name → who adds to a crash what only the framework knows. One line adds a framework.
DESCRIBERS = {
    "torch": "tensight.frameworks.torch.crash:add_to",
    "mindspore": "tensight.frameworks.mindspore.crash:add_to",
}

Frame = tuple[FrameType, int, int]  # with the line and the instruction that it is at


class Input(msgspec.Struct, frozen=True):
    """One thing that the failed call was given."""

    name: str
    words: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    device: str = ""


class Crash(msgspec.Struct):
    """The facts of a crash, before anybody says why."""

    type: str
    message: str
    source: Source | None = None  # the innermost line of the user's own code
    call: str = ""  # the expression that failed, innermost
    operator: str = ""
    in_user_code: bool = True  # False: a call of the framework or a library failed, made by the user's line
    phase: str = ""
    module: str | None = None  # None: outside all modules
    module_type: str = ""
    inputs: list[Input] = []
    late: bool = False  # the operator failed earlier than at this line: operators run ahead of Python
    nothing: str = ""  # "x is None in train.py:12": where a None came from that a call was given
    worker: str = ""  # 'DataLoader worker process 0' when it happened there
    kept_by: str = ""  # the operator whose backward found what it kept changed in place
    weight: str = ""  # the weight that was changed so, if it was one
    changes: list[Source] = []  # the user's lines that may have changed it
    seen_at: Source | None = None  # where it was noticed, when `source` is where it was done

    def named(self, *names: str) -> Input | None:
        """The tensor that goes by one of these names in the failed call."""
        return next((item for item in self.inputs if item.name in names and item.shape is not None), None)

    def inside(self, running: Sequence[Any], walk: Callable[[Any], Iterable[tuple[str, Any]]]) -> None:
        """It happened in the innermost of the modules that run; its path is by the outermost that has it."""
        if not running:
            return
        innermost = running[-1]
        self.module_type = type(innermost).__name__
        paths = (path for root in running for path, part in walk(root) if part is innermost)
        self.module = next(paths, "")


def describe(error: BaseException) -> Crash:
    """Read a traceback. The exception and its traceback are left as they are."""
    crash = Crash(type=type(error).__name__, message=str(error), inputs=[])
    frames = _frames(error.__traceback__)
    for frame, line, _ in frames:
        if is_user_file(frame.f_code.co_filename):
            crash.source = source_of(frame.f_code.co_filename, line, frame.f_code.co_name)
    if frames:
        frame, line, instruction = frames[-1]
        crash.in_user_code = is_user_file(frame.f_code.co_filename)
        expression = failed_expression(frame.f_code, line, instruction)
        if expression is not None:
            crash.call = ast.unparse(expression)
            crash.operator = operator_of(expression)
    for name in DESCRIBERS:
        if name in sys.modules:
            module, _, attribute = DESCRIBERS[name].partition(":")
            add: Callable[[Crash, list[Any]], None] = getattr(importlib.import_module(module), attribute)
            add(crash, frames)
    _from_worker(crash)
    _from_traced(crash)
    return crash


def _frames(trace: TracebackType | None) -> list[Frame]:
    found = []
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno, trace.tb_lasti))
        trace = trace.tb_next
    return found


def failed_expression(code: CodeType, line: int, instruction: int) -> ast.expr | None:
    """The call or operation that was running, as precisely as this Python tells."""
    if hasattr(code, "co_positions"):
        position = list(code.co_positions())[instruction // 2]
        first, last, start, end = position
        if first is not None and last is not None and start is not None and end is not None:
            lines = [linecache.getline(code.co_filename, number) for number in range(first, last + 1)]
            raw = [text.encode() for text in lines]
            if raw and raw[0]:
                raw[-1] = raw[-1][:end]
                raw[0] = raw[0][start:]
                found = _expression(b"".join(raw).decode(errors="replace"))
                if found is not None:
                    return found
    return _expression(linecache.getline(code.co_filename, line).strip().removeprefix("return "))


def _expression(text: str) -> ast.expr | None:
    try:
        tree = ast.parse(f"({text.strip()})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree


_SIGNS = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide",
}


def operator_of(expression: ast.expr) -> str:
    """The name of what an expression does.

    >>> operator_of(ast.parse("a @ b", mode="eval").body), operator_of(ast.parse("F.linear(x, w)", mode="eval").body)
    ('matmul', 'linear')
    """
    if isinstance(expression, ast.BinOp):
        return _SIGNS.get(type(expression.op), "")
    if isinstance(expression, ast.Compare):
        return "compare"
    if isinstance(expression, ast.Subscript):
        return "index"
    if isinstance(expression, ast.Call):
        function = expression.func
        if isinstance(function, ast.Attribute):
            return function.attr
        if isinstance(function, ast.Name):
            return function.id
    return ""


def operands(expression: ast.expr) -> list[ast.expr]:
    """What an expression is given: arguments, the object of a method, both sides of an operation."""
    if isinstance(expression, ast.BinOp):
        return [expression.left, expression.right]
    if isinstance(expression, ast.Compare):
        return [expression.left, *expression.comparators]
    if isinstance(expression, ast.Subscript):
        return [expression.value, expression.slice]
    if isinstance(expression, ast.Call):
        given = [part.value if isinstance(part, ast.Starred) else part for part in expression.args]
        given += [keyword.value for keyword in expression.keywords]
        # what is written as a list is as good as written one by one
        given = [one for part in given for one in (part.elts if isinstance(part, (ast.List, ast.Tuple)) else [part])]
        if isinstance(expression.func, ast.Attribute):
            given.insert(0, expression.func.value)
        return given
    return []


_MISSING = object()


def value_of(expression: ast.expr, frame: FrameType) -> Any:
    """What a name, attribute or element is in a frame, without calling anything of the user's; `_MISSING` else."""
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id, _MISSING))
    if isinstance(expression, ast.Attribute):
        owner = value_of(expression.value, frame)
        if owner is _MISSING:
            return _MISSING
        held = getattr(owner, "__dict__", {})
        for place in (held, held.get("_parameters", {}), held.get("_buffers", {}), held.get("_modules", {})):
            if expression.attr in place:
                return place[expression.attr]
        return _MISSING
    if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Constant):
        owner = value_of(expression.value, frame)
        if isinstance(owner, (list, tuple, dict)):
            try:
                return owner[expression.slice.value]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return _MISSING
    return _MISSING


def is_known(value: Any) -> bool:
    return value is not _MISSING


_STARTED = re.compile(r"-- Process (\d+) terminated with the following error")
_LOADER = re.compile(r"Caught (\w+) in (DataLoader worker process \d+)")
_TRACED = re.compile(
    r"Dynamo failed to run FX node with fake tensors: call_\w+ (?:<[\w-]+ (?:\w+ )?)?(\w+)(.*?)"
    r": got (\w+)\((['\"])(.*?)\4\)\s*\n",
    re.S,
)
_SIZE = re.compile(r"size=\(([\d, ]*)\)")
_FILE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def _from_worker(crash: Crash) -> None:
    """An exception that came from another process carries its traceback as text."""
    match = _LOADER.search(crash.message)
    started = _STARTED.search(crash.message) if crash.type == "ProcessRaisedException" else None
    last = ([text for text in crash.message.strip().splitlines() if text.strip()] or [""])[-1]
    if match:
        crash.type, crash.worker, crash.phase = match[1], match[2], "data"
    elif started:  # torch.multiprocessing.spawn: what failed is the process, not the line that started it
        crash.type, crash.worker = last.partition(": ")[0].rpartition(".")[2], f"process {started[1]}"
    else:
        return
    places = [place for place in _FILE.findall(crash.message) if is_user_file(place[0])]
    if places:
        file, line, function = places[-1]
        crash.source = source_of(file, int(line), function)
    every = _FILE.findall(crash.message)
    crash.in_user_code = bool(every) and is_user_file(every[-1][0])
    crash.message = last.partition(": ")[2] or last
    crash.operator, crash.call, crash.inputs, crash.module = "", "", [], None


def _from_traced(crash: Crash) -> None:
    """What failed while torch.compile read the user's code is what would have failed there, and not the compiling."""
    match = _TRACED.search(crash.message)
    places = [
        place for place in _FILE.findall(crash.message.rpartition("from user code:")[2]) if is_user_file(place[0])
    ]
    if match is None or not places:
        return
    file, line, function = places[-1]
    crash.source = source_of(file, int(line), function)
    crash.operator, given, crash.type, _, crash.message = match.groups()
    crash.call, crash.phase, crash.in_user_code = "", "forward", False
    shapes = [tuple(int(size) for size in text.split(",") if size.strip()) for text in _SIZE.findall(given)]
    crash.inputs = [Input(f"input {place}", str(list(shape)), shape) for place, shape in enumerate(shapes)]


# the call itself is wrong, whatever is called
_CALLED_WRONG = re.compile(r"positional argument|keyword argument|is not callable|has no attribute|unsupported operand")


def find_call(crash: Crash, frames: list[Frame], tensors: Callable[[FrameType, ast.expr], list[Input]]) -> None:
    """Fill in the innermost call that was given tensors, as far up as the user's own line."""
    for frame, line, instruction in reversed(frames):
        expression = failed_expression(frame.f_code, line, instruction)
        found = tensors(frame, expression) if expression is not None else []
        if found and expression is not None:
            crash.inputs = found
            crash.call, crash.operator = ast.unparse(expression), operator_of(expression)
            if frame is frames[-1][0] and not _CALLED_WRONG.search(crash.message):
                crash.in_user_code = False  # an operator leaves no frame of its own
            return
        if is_user_file(frame.f_code.co_filename):
            return
