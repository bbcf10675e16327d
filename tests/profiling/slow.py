"""The slow programs beside their fast twins: what each does wrong, and where."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
RECORDED = Path(__file__).parent / "recorded"
FAULTS = {
    "starved_loader": "data_loading_starvation",
    "slow_transform": "slow_transform",
    "jitter": "data_jitter",
    "loader_anew": "loader_made_anew",
    "item_each_step": "synchronising_calls",
    "cast_ping_pong": "cast_ping_pong",
    "float64": "accidental_float64",
    "recompiles": "recompilation_storm",
    "graph_breaks": "graph_breaks",
    "tiny_batches": "tiny_batches",
    "collector": "garbage_collection",
    "growing_graph": "graph_retained_by_accumulation",
    "python_in_step": "python_in_step",
    "anomaly": "debug_switch_left_on",
    "optimizer_loop": "optimizer_loop",
    "layout": "layout_changes",
    "poor_overlap": "poor_overlap",
}
SEVERAL = {"poor_overlap"}  # needs two ranks


def marked(name: str) -> int:
    """The line of a program that the advice must name."""
    lines = (PROGRAMS / f"{name}.py").read_text().splitlines()
    (line,) = [number for number, code in enumerate(lines, 1) if code.endswith("# slow")]
    return line
