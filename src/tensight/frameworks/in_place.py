"""The statements of a file that change something in place."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SIGNS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul"}
_INTO_PARTS = frozenset(("copyslices", "copy", "indexput"))  # what autograd calls a write to a part of a tensor
_NO_VALUES = frozenset(("requires_grad", "retain_grad", "share_memory", "add_module"))


class Change(NamedTuple):
    """A statement that changes something in place."""

    file: str
    line: int
    function: str
    owner: str  # the class it stands in
    operator: str  # 'add', 'copy_slices', 'relu'
    target: ast.expr | None

    def is_by(self, writer: str) -> bool:
        """Whether a framework that names the operator which wrote last can mean this one."""
        ours, theirs = (name.replace("_", "").lower() for name in (self.operator, writer))
        return ours == theirs or (ours in _INTO_PARTS and theirs in _INTO_PARTS)


def changes(file: str, calls: Sequence[str] = ()) -> Iterator[Change]:
    """All of a file, in its order; and calls of methods of these names."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _below(tree, file, "<module>", "", calls)


def words(name: str) -> str:
    """
    >>> words("CopySlices"), words("Sigmoid")
    ('copy_slices', 'sigmoid')
    """
    return re.sub(r"(?<!^)(?<![A-Z_])(?=[A-Z])", "_", name).lower()


def _below(tree: ast.AST, file: str, function: str, owner: str, calls: Sequence[str]) -> Iterator[Change]:
    for node in ast.iter_child_nodes(tree):
        made = _change(node, calls)
        if made is not None:
            yield Change(file, getattr(node, "lineno", 0), function, owner, *made)
        if isinstance(node, ast.ClassDef):
            yield from _below(node, file, function, node.name, calls)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _below(node, file, node.name, owner, calls)
        else:
            yield from _below(node, file, function, owner, calls)


def _change(node: ast.AST, calls: Sequence[str]) -> tuple[str, ast.expr | None] | None:
    """What a statement or a call does in place, and to what."""
    if isinstance(node, ast.AugAssign):
        if isinstance(node.value, (ast.List, ast.JoinedStr)) or isinstance(getattr(node.value, "value", None), str):
            return None  # lists and texts grow so
        operator = "copy_slices" if isinstance(node.target, ast.Subscript) else _SIGNS.get(type(node.op), "")
        return operator, _whole(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return "copy_slices", _whole(node.targets[0])
    if not isinstance(node, ast.Call):
        return None
    method = isinstance(node.func, ast.Attribute)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    target = node.func.value if isinstance(node.func, ast.Attribute) else None
    if method and name in calls:
        return name, target
    if any(word.arg == "inplace" and getattr(word.value, "value", None) is True for word in node.keywords):
        return name.lower(), node.args[0] if node.args else None
    if method and name.endswith("_") and not name.endswith("__") and name.rstrip("_") not in _NO_VALUES:
        return name.rstrip("_"), _whole(target)
    return None


def _whole(target: ast.expr | None) -> ast.expr | None:
    """What a part is taken of: `x` of `x[:, 0]`, of `x.data` and of `x.detach()`."""
    while True:
        if isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
            target = target.value
        elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr == "detach":
            target = target.func.value
        else:
            return target
