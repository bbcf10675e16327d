"""The slow programs beside their fast twins: what each does wrong, and where."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
KEPT_BACK = Path(__file__).parent / "held_out"
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


# written without a look at the rules, on other networks; where two causes are equally right, either will do
HELD_OUT = {
    "padded_by_hand": ("slow_transform", "data_loading_starvation"),
    "numpy_per_sample": ("synchronising_calls", "python_in_step"),
    "stacked_in_python": ("python_in_step",),
    "sleepy_decode": ("data_loading_starvation",),
    "doubles_from_numpy": ("accidental_float64",),
    "autocast_per_layer": ("cast_ping_pong",),
    "printed_tensors": ("synchronising_calls", "python_in_step"),
    "cyclic_objects": ("garbage_collection",),
    "short_epochs": ("loader_made_anew",),
    "lengths_compiled": ("recompilation_storm",),
    "parameters_one_by_one": ("optimizer_loop",),
    "norms_by_item": ("synchronising_calls",),
    "saved_each_step": ("python_in_step",),
    "losses_kept": ("graph_retained_by_accumulation",),
    "single_samples": ("tiny_batches",),
    "turned_images": ("layout_changes",),
    "branch_on_value": ("graph_breaks",),
    "pixels_in_python": ("slow_transform",),
}


def program(name: str) -> Path:
    return (KEPT_BACK if name in HELD_OUT else PROGRAMS) / f"{name}.py"


def causes(name: str) -> tuple[str, ...]:
    """The faults of which the first advice must name one."""
    return HELD_OUT[name] if name in HELD_OUT else (FAULTS[name],)


def lines(name: str) -> list[int]:
    """The lines of a program of which the advice must name one."""
    code = program(name).read_text().splitlines()
    return [number for number, line in enumerate(code, 1) if line.endswith("# slow")]


def marked(name: str) -> int:
    """The only such line."""
    (line,) = lines(name)
    return line
