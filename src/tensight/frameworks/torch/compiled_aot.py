"""Backends that derive forward and backward graphs and run them as Python, operator by operator: `aot_eager`, its kin.

Marks (`compiled_marks`) find the values in the derived graphs and are gone before these are divided into forward and
backward, so both compute what they would have computed. A look is then a call behind the operator that makes a value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.backends import common, debugging
from torch.fx import GraphModule

from tensight.frameworks.patches import Patches
from tensight.frameworks.torch import compiled_marks
from tensight.frameworks.torch.compiled_marks import BACKWARD, FORWARD, INFERENCE, META
from tensight.frameworks.torch.compiled_plan import Plan

Look = Callable[..., None]
_NAMES = ("aot_eager", "aot_eager_default_partitioner", "aot_eager_decomp_partition")
_plan: list[Plan] = []  # of the graph that is being compiled now
_look: list[Look] = []


def runs_in_python(backend: object) -> bool:
    """Whether a backend is one whose derived graphs run as they are."""
    return any(getattr(debugging, name, None) is backend for name in _NAMES)


def prepare(patches: Patches, look: Look) -> None:
    """From now on graphs that are compiled within `looking` are looked at."""
    _look[:] = [look]
    patches.wrap(common.AotAutograd, "__call__", _around)


def insert(model: GraphModule, plan: Plan) -> None:
    """Put the marks of a plan into the captured graph."""
    compiled_marks.insert(model.graph, plan)
    model.recompile()
    plan.derived = True


@contextmanager
def looking(plan: Plan) -> Iterator[None]:
    """While the graph of a plan is compiled."""
    _plan.append(plan)
    try:
        yield
    finally:
        _plan.pop()


def _around(original: Any) -> Any:
    def __call__(backend, gm, example_inputs, **kwargs):
        return original(_with_looks(backend) if _plan else backend, gm, example_inputs, **kwargs)

    return __call__


def _with_looks(backend: Any) -> Any:
    """The same backend for one graph: what it is given to compile, it is given with looks."""
    changed = copy.copy(backend)
    given = backend.kwargs
    forward = given["fw_compiler"]
    changed.kwargs = {
        **given,
        "fw_compiler": _compiler(forward, FORWARD),
        "bw_compiler": _compiler(given.get("bw_compiler") or forward, BACKWARD),
        "inference_compiler": _compiler(given.get("inference_compiler") or forward, INFERENCE),
        "partition_fn": _divided(given.get("partition_fn") or _default_partition()),
    }
    return changed


def _default_partition() -> Any:
    from torch._functorch.partitioners import default_partition

    return default_partition


def _divided(original: Any) -> Any:
    def divide(joint, *args, **kwargs):
        compiled_marks.remove(joint.graph)
        joint.recompile()
        return original(joint, *args, **kwargs)

    return divide


def _compiler(original: Any, kind: int) -> Any:
    def compile_with_looks(graph, inputs):
        _add(graph, kind)
        return original(graph, inputs)

    return compile_with_looks


def _add(model: GraphModule, kind: int) -> None:
    """Calls that look, behind the nodes that carry a mark of this way."""
    compiled_marks.remove(model.graph)  # a graph without a backward pass was not divided
    wanted = BACKWARD if kind == BACKWARD else FORWARD
    for node in list(model.graph.nodes):
        marks = [(key, index) for key, way, index in node.meta.get(META, ()) if way == wanted]
        if not marks:
            continue
        # an input of the graph is looked at once all inputs are there
        behind = node if node.op != "placeholder" else _last_input(model)
        for key in dict.fromkeys(key for key, _ in marks):
            indices = [index for one, index in marks if one == key]
            with model.graph.inserting_after(behind):
                behind = model.graph.call_function(_look[0], (node, key, kind, indices))
    model.recompile()


def _last_input(model: GraphModule) -> Any:
    return [node for node in model.graph.nodes if node.op == "placeholder"][-1]
