"""Terms of a loss made from `torch.autograd.grad` without `create_graph`: numbers, which train nothing."""

from __future__ import annotations

import ast
import inspect
import sys
from types import FrameType
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import source_of, user_frame, user_site
from tensight.frameworks.torch.graph import operator
from tensight.frameworks.torch.lines import Site
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.terms import Term, read
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

FIRST = 10  # steps that are looked at
_MOST_NODES = 64  # of the sum
_SCALES = frozenset({"mul", "div", "neg", "mean", "sum", "squeeze", "view", "clone"})
_is_compiling = torch.compiler.is_compiling


class Penalties:
    """Remembers where slopes of inputs were asked for without a graph, until the loss is known that they went into."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self._asked: dict[str, Site] = {}  # function → where in it
        patches.wrap(torch.autograd, "grad", self._around_grad)

    def _around_grad(self, original: Any) -> Any:
        watching = self.watching
        noted = watching.probe("slopes", self._note)

        def grad(outputs, inputs, *args, **kwargs):
            result = original(outputs, inputs, *args, **kwargs)
            if not _is_compiling() and watching.deep and not watching.inside and watching.sink.step < FIRST:
                noted(inputs, args, kwargs, result)
            return result

        return grad

    def _note(self, inputs: Any, args: tuple, kwargs: dict, result: tuple) -> None:
        given = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        if any(kwargs.get(name) for name in ("create_graph", "is_grads_batched")) or any(args[2:3]):
            return
        if any(one in self.networks.parameters for one in given) or self.watching.foreign():
            return
        site = user_site()
        if site is not None and not any(isinstance(one, torch.Tensor) and one.requires_grad for one in result):
            self._asked[site[2]] = site

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        asked, self._asked = self._asked, {}
        if not asked or not _adds_a_number(root):
            return
        frame = user_frame()
        if frame is None:
            return
        plan = read(frame.f_code.co_filename, frame.f_lineno)
        for term in plan[1] if plan is not None else ():
            made_in = next((name for name in _made_in(term, frame) if name in asked), None)
            if made_in is not None:
                values: dict[str, Value] = {"term": term.name, "line": term.line}
                self.watching.sink.event("number_in_loss", self.watching.network, values, source_of(*asked[made_in]))
                return


def _adds_a_number(root: torch.Tensor) -> bool:
    """Whether a loss is a sum of which some summand has no graph.

    >>> weight = torch.ones(3, requires_grad=True)
    >>> _adds_a_number(weight.sum() + 10 * torch.ones(3).mean()), _adds_a_number(weight.sum() + weight.mean())
    (True, False)
    """
    waiting = [root.grad_fn]
    for _ in range(_MOST_NODES):
        node = waiting.pop() if waiting else None
        if node is None:
            return False
        name = operator(node).rstrip("_")
        following = [one for one, _ in node.next_functions]
        if name in ("add", "sub"):
            if len(following) == 2 and None in following:
                return True
            waiting += [one for one in following if one is not None]
        elif name in _SCALES:
            waiting += [one for one in following if one is not None][:1]
    return False


def _made_in(term: Term, frame: FrameType) -> list[str]:
    """The functions that a summand may have been made in: the one that is called, or that of a number's variable."""
    for factor in term.factors:
        if isinstance(factor, ast.Call):
            return [_called(factor)]
    names = [factor.id for factor in term.factors if isinstance(factor, ast.Name)]
    variables = frame.f_locals
    try:
        values = [variables[name] for name in names if isinstance(variables.get(name), torch.Tensor)]
        if not values or any(type(one) not in PLAIN or one.requires_grad for one in values):
            return []
    finally:
        if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()  # the snapshot stays with its frame and would keep tensors alive
    return [_called(term.made) if isinstance(term.made, ast.Call) else "", frame.f_code.co_name]


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
