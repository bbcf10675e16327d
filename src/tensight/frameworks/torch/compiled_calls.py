"""Calls that a captured graph shows: compiled code runs without the functions that would tell of them.

A fact that is read from a graph holds for every run of it, so each graph is read once, when it is captured.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.fx import Graph, Node

from tensight.frameworks.torch.compiled_plan import line_of
from tensight.frameworks.torch.loss_facts import shape_text
from tensight.frameworks.torch.networks import Entry
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

_LOSSES = {"cross_entropy": "softmax", "binary_cross_entropy_with_logits": "sigmoid"}  # loss → what it applies itself
_DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})


def tell(graph: Graph, watching: Watching, entry_of: Callable[[int], Entry | None], around: Entry | None) -> None:
    """Events for losses that get what they would make themselves, and for dropout in evaluation mode.

    `around` is the network: what the compiled module does by itself stands in no scope.
    """
    for node in graph.nodes:
        name = _name(node)
        if name in _DROPOUTS:
            _dropout(node, name, watching, entry_of, around)
        elif name in _LOSSES and torch.is_grad_enabled():
            _loss(node, name, watching)


def _name(node: Node) -> str:
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""


def _loss(node: Node, name: str, watching: Watching) -> None:
    prediction = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(prediction, Node) or _name(prediction) != _LOSSES[name]:
        return
    if name == "cross_entropy" and _dim(prediction) not in (1, -1):
        return  # over the samples: another fault
    value, source, made = prediction.meta.get("example_value"), line_of(node), line_of(prediction)
    values: dict[str, Value] = {"function": name, "prediction_from": _LOSSES[name], "traced": True}
    values |= {"prediction_min": 0.0, "prediction_max": 1.0}  # whatever it is given
    if isinstance(value, torch.Tensor) and value.dim() > 1 and all(isinstance(length, int) for length in value.shape):
        values |= {"prediction_shape": shape_text(value), "classes": value.shape[1]}
    if made is not None:
        values |= {"prediction_file": made.file, "prediction_line": made.line, "prediction_code": made.code}
    watching.sink.event("loss", name, values, source)


def _dim(node: Node) -> object:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")


def _dropout(
    node: Node, name: str, watching: Watching, entry_of: Callable[[int], Entry | None], around: Entry | None
) -> None:
    p = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    on = node.args[2] if len(node.args) > 2 else node.kwargs.get("training", True)
    scope = next(reversed(node.meta.get("nn_module_stack") or {}), "").partition("@")[0]
    entry = entry_of(int(scope)) if scope.isdigit() else around
    module = None if entry is None else entry.ref()
    if entry is None or module is None or module.training or isinstance(module, nn.modules.dropout._DropoutNd):
        return  # a dropout module itself was switched to training on purpose
    if not on or not isinstance(p, (int, float)) or not p:
        return
    values: dict[str, Value] = {"p": float(p), "training": True, "module": entry.path, "module_training": False}
    watching.sink.event("dropout", entry.network, {**values, "function": name}, line_of(node))
