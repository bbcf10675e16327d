"""Marks: operators that stand in a value's way while torch.compile derives the backward pass, and are then gone.

A mark tells which node of the joint graph holds a module's output and which one its gradient. It is put in after the
passes on the captured graph and taken out before those on the joint graph, so what is compiled is what would have been
compiled without it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from tensight.frameworks.torch.compiled_plan import Plan, may_be_renamed

META = "tensight"  # in a node's meta: [(key of the plan, FORWARD or BACKWARD, index of the mark), …]
FORWARD, BACKWARD, INFERENCE = 0, 1, 2

_library = torch.library.Library("tensight", "DEF")
_tags = (torch.Tag.pt2_compliant_tag,)
_library.define("mark(Tensor x, str key, int index) -> Tensor", tags=_tags)
_library.define("mark_gradient(Tensor x, str key, int index) -> Tensor", tags=_tags)
_library.define("probe(Tensor x, str key, int kind, int[] indices) -> ()", tags=_tags)
MARK = torch.ops.tensight.mark.default
MARK_GRADIENT = torch.ops.tensight.mark_gradient.default
PROBE = torch.ops.tensight.probe.default


def _alike(x: torch.Tensor, key: str, index: int) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)


def _copy(x: torch.Tensor, key: str, index: int) -> torch.Tensor:
    return _alike(x, key, index).copy_(x)


def _setup(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    _, ctx.key, ctx.index = inputs


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple:
    return MARK_GRADIENT(gradient, ctx.key, ctx.index), None, None


for _name in ("mark", "mark_gradient"):
    torch.library.register_fake(f"tensight::{_name}", _alike, lib=_library)
    _library.impl(_name, _copy, "CompositeExplicitAutograd")
torch.library.register_fake("tensight::probe", lambda x, key, kind, indices: None, lib=_library)
torch.library.register_autograd("tensight::mark", _backward, setup_context=_setup, lib=_library)


def on_probe(look: Any) -> None:
    """What a probe inside compiled code calls."""
    _library.impl("probe", look, "CompositeExplicitAutograd")


def insert(graph: Graph, plan: Plan) -> None:
    """Put a mark behind each value of the plan that is still there."""
    nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
    free = may_be_renamed(graph)
    done: set[str] = set()
    for index, mark in enumerate(plan.marks):
        node = nodes.get(mark.node)
        if node is None or mark.node in done or node not in free:
            continue
        done.add(mark.node)
        with graph.inserting_after(node):
            marked = graph.call_function(MARK, (node, plan.key, index))
        marked.meta = dict(node.meta)
        node.replace_all_uses_with(marked, delete_user_cb=lambda user, marked=marked: user is not marked)


def remove(graph: Graph) -> None:
    """Take all marks out of a joint graph; what they stood behind carries them as meta."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in (MARK, MARK_GRADIENT):
            value, key, index = node.args
            kind = FORWARD if node.target is MARK else BACKWARD
            value.meta[META] = [*value.meta.get(META, ()), (key, kind, index)]
            node.replace_all_uses_with(value, propagate_meta=False)
            graph.erase_node(node)
