"""Where things are in a dump: `{path}/rank_{r}/{net}/{graph}/{iteration}/…`, as MindSpore 2.x lays it out."""

from __future__ import annotations

from pathlib import Path

METADATA = ".dump_metadata"
GRAPHS = "graphs"
ORDERS = "execution_order"
STATISTICS = "statistic.csv"
MAPPING = "mapping.csv"
TENSORS = "tensight.jsonl"
"""In the metadata: what each name stands for, one tensor in a line."""
COLUMNS = (
    "Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot", "Data Size", "Data Type", "Shape",
)  # fmt: skip


def rank_folder(path: Path, rank: int) -> Path:
    return path / f"rank_{rank}"


def iteration_folder(rank: Path, net: str, graph: int, iteration: int) -> Path:
    """
    >>> iteration_folder(Path("rank_0"), "Net", 1, 7).as_posix()
    'rank_0/Net/1/7'
    """
    return rank / net / str(graph) / str(iteration)


def order_file(rank: Path, graph: int) -> Path:
    return rank / ORDERS / f"ms_execution_order_graph_{graph}.csv"


def history_file(rank: Path, graph: int) -> Path:
    """Which iterations ran."""
    return rank / ORDERS / f"ms_global_execution_order_graph_{graph}.csv"


def graph_file(rank: Path, graph: int, suffix: str = "pb") -> Path:
    return rank / GRAPHS / f"ms_output_trace_code_graph_{graph}.{suffix}"
