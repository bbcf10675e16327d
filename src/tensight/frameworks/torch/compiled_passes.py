"""The settings by which inductor is told of marks, for the compilation of one graph."""

from __future__ import annotations

from typing import Any

from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph

from tensight.frameworks.torch import compiled_marks, compiled_operators, compiled_plan, compiled_probes
from tensight.frameworks.torch.compiled_plan import Plan

_FILES = tuple(module.__file__ for module in (compiled_marks, compiled_operators, compiled_plan, compiled_probes))


class _Insert(CustomGraphPass):
    """Puts the marks in, as the last pass on the captured graph. Code with probes is cached apart from code without."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, graph: Graph) -> None:
        compiled_marks.insert(graph, self.plan)

    def uuid(self) -> Any:
        return get_hash_for_files(_FILES, f"insert {self.plan.key}{_operators(self.plan)}")


class _Remove(CustomGraphPass):
    """Takes them out, as the first pass on the joint graph."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, graph: Graph) -> None:
        compiled_marks.remove(graph)

    def uuid(self) -> Any:
        return get_hash_for_files(_FILES, f"remove {self.plan.key}{_operators(self.plan)}")


def _operators(plan: Plan) -> str:
    return " operators" if plan.operators else ""


def plan_now() -> Plan | None:
    """The plan of the graph that is being compiled."""
    found = config.joint_custom_pre_pass
    passes = found if isinstance(found, (list, tuple)) else [found]
    return next((one.plan for one in passes if isinstance(one, _Remove)), None)


def settings(plan: Plan, given: dict[str, Any]) -> dict[str, Any]:
    """Ours beside the user's own passes."""
    return {
        "pre_grad_custom_pass": _beside(given.get("pre_grad_custom_pass"), _Insert(plan), first=False),
        "joint_custom_pre_pass": _beside(given.get("joint_custom_pre_pass"), _Remove(plan), first=True),
    }


def _beside(theirs: Any, ours: CustomGraphPass, *, first: bool) -> Any:
    if theirs is None:
        return ours
    others = list(theirs) if isinstance(theirs, (list, tuple)) else [theirs]
    return [ours, *others] if first else [*others, ours]
