"""The user's own line, mended: an operator's argument kept away from where it goes bad."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_MODULES = ("torch", "F", "np", "math", "nn", "ops", "mint", "ms", "mnp")
_SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def mended(line: str, names: Iterable[str], change: str) -> str:
    """The line with `change` made to the argument of every call of `names`; '' when there is none to be seen.

    `change` holds the place of the argument as `x`. Calls are found as functions and as methods. The names '/' and
    '**' stand for the divisor of a division and the base of a power.

    >>> mended("d = torch.sqrt(a.sum(1))", ["sqrt"], "x + 1e-12")
    'd = torch.sqrt(a.sum(1) + 1e-12)'
    >>> mended("return x / y.sum()", ["/"], "x.clamp_min(1e-8)")
    'return x / y.sum().clamp_min(1e-8)'
    >>> mended("p = (1 - q).log()", ["log"], "x.clamp_min(1e-8)")
    'p = (1 - q).clamp_min(1e-8).log()'
    """
    text = line.strip()
    tree = _parsed(text)
    if tree is None:
        return ""
    spots: list[tuple[int, int, bool, bool]] = []
    for node in ast.walk(tree):
        target = _argument(node, frozenset(names))
        if target is not None:
            argument, method = target
            start, end = argument.col_offset, argument.end_col_offset
            if argument.lineno == argument.end_lineno == 1 and end is not None:
                spots.append((start, end, isinstance(argument, _SIMPLE), method))
    if not spots:
        return ""
    encoded = text.encode()
    for start, end, simple, method in sorted(spots, reverse=True):
        # An argument in brackets takes them along.
        while start > 0 and not simple and encoded[start - 1 : start] == b"(" and encoded[end : end + 1] == b")":
            if not _grouping(encoded, start - 1):
                break
            start, end = start - 1, end + 1
        inner = encoded[start:end].decode()
        bracketed = inner.startswith("(") and not simple
        attribute = change.startswith("x.")
        argument_text = inner if simple or bracketed or not attribute else f"({inner})"
        made = change.replace("x", argument_text, 1)
        if not attribute and (method or _is_operand(encoded, start, end)):
            made = f"({made})"
        encoded = encoded[:start] + made.encode() + encoded[end:]
    return encoded.decode()


def _parsed(text: str) -> ast.AST | None:
    for attempt in (text, text + " pass", text.removeprefix("el")):
        try:
            return ast.parse(attempt)
        except SyntaxError:
            continue
    return None


def _argument(node: ast.AST, names: frozenset[str]) -> tuple[ast.expr, bool] | None:
    """What the named operator is given at this node, and whether it is the object of a method."""
    if isinstance(node, ast.BinOp):
        if "/" in names and isinstance(node.op, ast.Div):
            return node.right, False
        if "**" in names and isinstance(node.op, ast.Pow):
            return node.left, False
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id in names and node.args:
            return node.args[0], False
        if isinstance(function, ast.Attribute) and function.attr in names:
            module = isinstance(function.value, ast.Name) and function.value.id in _MODULES
            if module or ast.unparse(function.value) in ("torch.nn.functional", "nn.functional", "torch.linalg"):
                return (node.args[0], False) if node.args else None
            return function.value, True
    return None


def _grouping(encoded: bytes, at: int) -> bool:
    """Whether the bracket at a place groups, and does not open the arguments of a call."""
    before = encoded[:at].rstrip()[-1:]
    return not (before.isalnum() or before in (b"_", b")", b"]"))


def _is_operand(encoded: bytes, start: int, end: int) -> bool:
    """Whether an operator stands beside this place, so that a sum put there needs brackets."""
    before, after = encoded[:start].rstrip()[-1:], encoded[end:].lstrip()[:1]
    return before in (b"/", b"*", b"-", b"+") or after in (b"/", b"*")
