"""Dumps and runs from Python: `tensight.dump`, selecting, overflows, what is affected, export."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensight
from tensight.errors import MissingExtra, NameNotFound, UsageError
from tests.dump import makers, running

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run():
    return tensight.open(GOLDEN / "mindspore-2.10")


@pytest.fixture
def overflowing(tmp_path):
    """A dump of three steps and two ranks; the second rank overflows in the second step."""
    for rank in (0, 1):
        for step in range(3):
            value = np.array([1.0, np.inf if rank and step == 1 else 2.0], np.float32)
            makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", value, rank=rank, step=step)
            large = np.array([70000.0 if step == 2 else 1.0], np.float32)
            makers.npy(tmp_path / "d", "MatMul.Default_fc_MatMul-op0.output.0", large, rank=rank, step=step, time=1)
    return tensight.open(tmp_path / "d")


def test_dump_from_python_writes_its_targets_with_their_iterations(tmp_path):
    for way in ("sync", "async"):
        folder = tmp_path / way
        folder.mkdir()
        assert "exit 0" in running.bare(folder, "python_api.py", way)
        assert sorted(path.name for path in (folder / "dump/rank_0/Net/0").iterdir()) == ["5", "6"]
        found = running.files(folder, 6)
        assert "ReLU.Default_act_ReLU-op0.output.0" in found
        assert "Parameter.head_weight.output.0" in found
        assert not [name for name in found if "first" in name or ".input." in name]
        assert np.load(found["ReLU.Default_act_ReLU-op0.output.0"]).shape == (2, 8)


def test_dump_from_python_says_what_is_wrong(tmp_path):
    with pytest.raises(UsageError, match="give a config, or a path and keys, not both"):
        tensight.dump(object(), path=tmp_path, config={})
    with pytest.raises(UsageError, match=r"tensight\.dump: common_dump_settings\.dump_mode is 4: allowed is 0, 1, 2"):
        tensight.dump(object(), path=tmp_path, dump_mode=4)
    with pytest.raises(UsageError, match="dump_mode=2 dumps what is given as targets"):
        tensight.dump(object(), path=tmp_path, dump_mode=2)
    with pytest.raises(UsageError, match="is no module of the model"):
        tensight.dump(object(), path=tmp_path, targets=[object()])


def test_a_dump_cannot_go_where_a_file_is(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="the dump cannot go to"):
        tensight.dump(object(), path=tmp_path / "taken" / "dump")


def test_nodes_are_selected_by_name_pattern_and_line(run):
    assert "head/BiasAdd" in run.select("head").names
    assert run.select("HEAD", case_sensitive=False).names == run.select("head").names
    assert run.select(r"^(first|head)/BiasAdd$", regex=True).names == ["first/BiasAdd", "head/BiasAdd"]
    assert {node.node for node in run.select("self.act(self.first(x))", by="source")} >= {"first", "act", "head"}
    assert run.select("act*").names == run.select("act").names
    assert not run.select("nothing like it")
    with pytest.raises(UsageError, match="is no regular expression"):
        run.select("(", regex=True)
    with pytest.raises(UsageError, match="selected by name or source"):
        run.select("x", by="colour")


def test_tensors_are_selected_by_step_rank_and_slot(overflowing):
    chosen = overflowing.select("act", ranks=1).tensors(step=range(1, 3), slot="output.0")
    assert [(tensor.rank, tensor.step) for tensor in chosen] == [(1, 1), (1, 2)]
    assert chosen[0].numpy().tolist() == [1.0, np.inf]
    assert overflowing.select("act").tensors(slot="input") == []
    assert {tensor.rank for tensor in overflowing.select("act").tensors(rank=1)} == {1}
    assert set(overflowing.select("act").stats(rank=[0]).to_pandas()["rank"]) == {0}


def test_statistics_go_to_pandas(overflowing):
    frame = overflowing.select("act").stats().to_pandas()
    assert sorted(frame["rank"]) == [0, 0, 0, 1, 1, 1]
    assert list(frame[(frame["rank"] == 1) & (frame["pos_inf"] > 0)]["step"]) == [1]


def test_statistics_go_to_arrow_or_say_what_is_missing(overflowing):
    table = overflowing.select("act").stats()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match=r"pip install 'tensight\[arrow\]'"):
            table.to_arrow()
    else:
        assert table.to_arrow().num_rows == 6


def test_overflow_is_counted_for_each_tensor_and_step(overflowing, tmp_path):
    found = overflowing.overflows()
    assert len(found) == 4
    assert [(row.rank, row.node, row.first, row.inf, row.out_of_range, row.steps) for row in found.bad] == [
        (1, "act", 1, 1, 0, (1,)),
        (0, "fc", 2, 0, 1, (2,)),
        (1, "fc", 2, 0, 1, (2,)),
    ]
    assert [row.clean for row in found if row.first is None] == [3]
    assert not overflowing.overflows(limit=1e6, step=2).bad
    with open(found.to_csv(tmp_path / "summary.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["node"] == "act"


def test_conditions_with_a_range_are_judged_from_the_values(overflowing):
    held = overflowing.check("TR(range_percentage_gt=99, range_start_inclusive=1.5, range_end_inclusive=2.5) on *").held
    assert not held
    held = overflowing.check("TR(range_percentage_gt=49, range_start_inclusive=1.5, range_end_inclusive=2.5) on *").held
    assert {(hit.rank, hit.step) for hit in held} == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)}


def test_what_a_node_affects_and_comes_from(run):
    down = run.affected("first/MatMul")
    assert down.names[0] == "first/BiasAdd"
    assert [node.distance for node in down] == sorted(node.distance for node in down)
    assert "first.weight" not in down.names
    assert "first.weight" in run.affected("first/BiasAdd", up=True).names
    with pytest.raises(NameNotFound, match="no node of the graph fits"):
        run.affected("nothing like it")


def test_a_run_without_a_graph_says_so(overflowing):
    with pytest.raises(NameNotFound, match="has no graph"):
        overflowing.affected("act")


def test_graphs_are_exported_with_their_stacks(run, tmp_path):
    (path,) = run.export_graphs(tmp_path / "graphs")
    with open(path, newline="") as file:
        rows = {row["node"]: row for row in csv.DictReader(file)}
    assert rows["first/BiasAdd"]["inputs"].split()[0] == "first/MatMul"
    assert rows["first/BiasAdd"]["file"] == "/home/user/train/train.py"
    with pytest.raises(UsageError, match="as csv or xlsx"):
        run.export_graphs(tmp_path, form="pdf")


def test_graphs_are_exported_to_excel_or_it_says_what_is_missing(run, tmp_path):
    try:
        import openpyxl
    except ImportError:
        with pytest.raises(MissingExtra, match=r"pip install 'tensight\[xlsx\]'"):
            run.export_graphs(tmp_path, form="xlsx")
    else:
        (path,) = run.export_graphs(tmp_path, form="xlsx")
        book = openpyxl.load_workbook(path, read_only=True)
        assert next(book.active.iter_rows(values_only=True))[2] == "node"
        book.close()


def test_reading_a_dump_imports_no_framework():
    program = (
        "import sys, tensight\n"
        f"run = tensight.open({str(GOLDEN / 'msprobe-26.2-tensor')!r})\n"
        "assert run.check('TO on *')\n"
        "assert not {'torch', 'mindspore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)
