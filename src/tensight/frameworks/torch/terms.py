"""The terms that a loss is the sum of, by the names that the user's code gives them, with their values.

`loss = rec + 0.1 * kl` is read from the program, and the numbers from its variables: one of them may run away, or
outweigh all others, without any sign of it in the sum.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import math
import sys
from types import FrameType
from typing import Any, NamedTuple

import torch

from tensight.frameworks.source import source_of, user_frame
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

EVERY = 10  # steps between two looks, after as many first ones
MOST = 8  # terms of one loss


class Term(NamedTuple):
    """One summand: its name (or code), what it is multiplied by, and the line that a wrong one is to be mended in."""

    name: str
    sign: int
    factors: list[ast.expr]
    divisors: list[ast.expr]
    line: int
    made: ast.expr | None = None  # what it was assigned


class Terms:
    """Looks, when a backward pass begins, at what its loss was added up from."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._last = -EVERY

    def root(self, root: torch.Tensor, scale: float) -> None:
        watching = self.watching
        step = watching.sink.step
        if not watching.deep or (step >= EVERY and step - self._last < EVERY) or not _scalar(root):
            return
        self._last = step
        frame = user_frame()
        if frame is None:
            return
        plan = read(frame.f_code.co_filename, frame.f_lineno)
        if plan is None:
            return
        line, terms = plan
        values = _values(terms, frame, float(root.detach().item()) / scale)
        if values:
            told: dict[str, Value] = dict(values)
            for term in terms:
                told[f"line of {term.name}"] = (
                    f"{term.line} {linecache.getline(frame.f_code.co_filename, term.line).strip()}"
                )
            watching.sink.event(
                "terms", watching.network, told, source_of(frame.f_code.co_filename, line, frame.f_code.co_name)
            )


def _scalar(value: object) -> bool:
    return type(value) in PLAIN and value.numel() == 1 and value.device.type == "cpu"  # type: ignore[attr-defined]


def _values(terms: list[Term], frame: FrameType, total: float) -> dict[str, float]:
    """What each term adds to the loss; one that cannot be read is what the others leave."""
    variables = frame.f_locals
    try:
        found: dict[str, float] = {}
        unread = []
        for term in terms:
            value = float(term.sign)
            for factor in term.factors:
                value *= _number(factor, variables)
            for divisor in term.divisors:
                value /= _number(divisor, variables) or math.nan
            if math.isnan(value):
                unread.append(term.name)
            else:
                found[term.name] = value
    finally:
        if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()  # the snapshot stays with its frame and would keep tensors alive
    if len(unread) > 1 or not found:
        return {}
    if unread:
        found[unread[0]] = total - sum(found.values())
    return found


def _number(node: ast.expr, variables: Any) -> float:
    """The value of a constant, a variable or an attribute of one; NaN of all that would have to be called."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    value: object = None
    if isinstance(node, ast.Name):
        value = variables.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr(variables.get(node.value.id), "__dict__", {}).get(node.attr)
    if isinstance(value, (int, float)):
        return float(value)
    return float(value.detach().item()) if isinstance(value, torch.Tensor) and _scalar(value) else math.nan


@functools.lru_cache(maxsize=256)  # asked in every step
def read(file: str, line: int) -> tuple[int, list[Term]] | None:
    """The line that assigns the loss whose backward is called in `line`, and its terms when there are several."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    called = [
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.lineno == line
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "backward"
        and isinstance(node.func.value, ast.Name)
    ]
    made = _assigned(tree, called[0], line) if called else None
    if made is None:
        return None
    terms: list[Term] = []
    _split(made.value, 1, made.lineno, tree, terms)
    names = {term.name for term in terms}
    return (made.lineno, terms) if 1 < len(names) == len(terms) <= MOST else None


def _assigned(tree: ast.AST, name: str, before: int) -> ast.Assign | None:
    """The nearest plain assignment to a name above a line."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and node.lineno < before
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _split(node: ast.expr, sign: int, line: int, tree: ast.AST, terms: list[Term]) -> None:
    """A sum into its terms, each with its factors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        _split(node.left, sign, line, tree, terms)
        _split(node.right, sign if isinstance(node.op, ast.Add) else -sign, line, tree, terms)
        return
    factors: list[ast.expr] = []
    divisors: list[ast.expr] = []
    sign *= _factors(node, factors, divisors)
    named = [one for one in factors if isinstance(one, ast.Name) and one.id != "self"]
    made_here = any(isinstance(one, ast.Call) for one in factors)  # weight * penalty(net) is not called 'weight'
    own = named[-1] if named and not made_here else None  # weights come first: 0.1 * kl, beta * kl
    made = _assigned(tree, own.id, line) if own is not None and sign > 0 else None
    name = own.id if own is not None else ast.unparse(node)
    terms.append(
        Term(name, sign, factors, divisors, line if made is None else made.lineno, None if made is None else made.value)
    )


def _factors(node: ast.expr, factors: list[ast.expr], divisors: list[ast.expr]) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_factors(node.operand, factors, divisors)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left, factors, divisors) * _factors(node.right, factors, divisors)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        divisors.append(node.right)
        return _factors(node.left, factors, divisors)
    factors.append(node)
    return 1
