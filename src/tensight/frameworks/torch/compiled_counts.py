"""How often torch.compile has captured graphs, broken them and thrown them away."""

from __future__ import annotations

from typing import Any

from tensight.records.event import Value


class Counts:
    """Graphs of this process since the adapter was attached."""

    def __init__(self) -> None:
        self.graphs = 0
        self.recompiles = 0
        self._breaks = 0

    def graph(self) -> dict[str, Value]:
        """Called by a backend for each graph it is given: the values of a 'compile' event."""
        from torch._dynamo.utils import counters
        from torch._guards import CompileContext

        self.graphs += 1
        identity = CompileContext.current_compile_id()
        again = getattr(identity, "frame_compile_id", 0) or 0  # how often this function was captured before
        # a function that is captured again after a break is no recompilation: its first part counts
        values: dict[str, Value] = {"graphs": self.graphs, "breaks": sum(counters["graph_break"].values())}
        facts = _facts()
        if again:
            self.recompiles += 1
            values["again"] = again
            if facts.get("recompile_reason"):
                values["reason"] = str(facts["recompile_reason"])[:400]
        values["recompiles"] = self.recompiles
        for name, fact in (("function", "co_name"), ("file", "co_filename"), ("line", "co_firstlineno")):
            if facts.get(fact) is not None:
                values[name] = facts[fact]
        return values


def _facts() -> dict[str, Any]:
    """What dynamo has noted of the compilation that is running."""
    from torch._dynamo import utils

    context = getattr(utils, "get_metrics_context", None)
    return dict(getattr(context(), "_metrics", {}) or {}) if context is not None else {}
