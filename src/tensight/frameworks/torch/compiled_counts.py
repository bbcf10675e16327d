"""How often torch.compile has captured graphs, broken them and captured the same function again."""

from __future__ import annotations

from tensight.records.event import Value

_LONGEST_REASON = 300


class Counts:
    """Graphs of this process since the adapter was attached."""

    def __init__(self) -> None:
        self.graphs = 0
        self.recompiles = 0

    def graph(self) -> dict[str, Value]:
        """Called by a backend for each graph it is given: the values of a 'compile' event."""
        from torch._dynamo.utils import counters
        from torch._guards import CompileContext

        self.graphs += 1
        identity = CompileContext.current_compile_id()
        again = getattr(identity, "frame_compile_id", None) or 0
        values: dict[str, Value] = {
            "graphs": self.graphs,
            "breaks": sum(counters["graph_break"].values()),
            "frame": getattr(identity, "frame_id", None),
            "again": again,
        }
        if again:
            self.recompiles += 1
            values["reason"] = _reason()
        values["recompiles"] = self.recompiles
        return values


def _reason() -> str:
    """Why the code that was there would not do, in the words of torch.compile; '' when it does not say."""
    from torch._dynamo import utils

    context = getattr(utils, "get_metrics_context", None)
    facts = getattr(context(), "_metrics", None) if context is not None else None
    return str((facts or {}).get("recompile_reason") or "").strip()[:_LONGEST_REASON]
