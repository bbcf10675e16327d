"""Which tensors of which step are dumped, and under which names: the dumper by itself, without a framework."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tensight.dump.anf import decode
from tensight.dump.dumper import Dumper
from tensight.dump.readers import scan
from tensight.dump.settings import parse
from tensight.frameworks.tap import Made, Ran
from tensight.records import Network, Observation, Source, Stats, StepRecord, TensorInfo
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder
from tensight.stats import statistics

VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


class Training:
    """Stands for a recorder: shows a dumper one operator and one weight for each step."""

    def __init__(self, folder: Path, way: str = "e2e", *, rank: int = 0, more=None, **common) -> None:
        settings = {"path": str(folder), "net_name": "Net", "iteration": "all", **common}
        given = {"common_dump_settings": settings, f"{way}_dump_settings": {"enable": True, **(more or {})}}
        self.infos: dict[int, TensorInfo] = {}
        self.networks = {name: Network(name, "Net") for name in ("model", "teacher")}
        self.dumper = Dumper(
            parse(given),
            framework=lambda: ("torch", "2.0"),
            rank=lambda: rank,
            networks=self.networks,
            tensors=self.infos,
        )

    def info(self, number: int, **fields) -> TensorInfo:
        made = TensorInfo(
            **{
                "id": number,
                "kind": "operator",
                "node": "fc",
                "slot": "output.0",
                "op": "aten.relu",
                "network": "model",
                "shape": (2, 3),
                "dtype": "float32",
                **fields,
            }
        )
        return self.infos.setdefault(number, made)

    def step(self, step: int, *infos: TensorInfo, value=VALUE) -> None:
        """A step in which these tensors are seen."""
        dumper = self.dumper
        if not dumper.wants_step(step):
            return
        seen = []
        for order, info in enumerate(infos):
            stats = statistics(value)
            seen.append(Observation(info.id, order, stats, info.phase))
            if dumper.keeps and dumper.wants(info, stats):
                dumper.take(info, stats, value)
        dumper.step_ended(StepRecord(step, 1e9 + step, 0.1, observations=tuple(seen)))


class Read:
    """What an operator was given."""

    dtype = "float32"

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.shape = value.shape

    def numpy(self) -> np.ndarray:
        return self.value

    def statistics(self) -> Stats:
        return statistics(self.value)


def ran(info: TensorInfo, given: np.ndarray, made: np.ndarray, error: str = "") -> Ran:
    inputs = [Read(given)]
    outputs = [] if error else [Made(info, statistics(made), lambda: made)]
    return Ran(
        "fc",
        "aten.log",
        "forward",
        0,
        inputs,
        outputs,
        lambda: None,
        lambda: [Source("net.py", 3, "y = x.log()")],
        error,
    )


def names(folder: Path) -> list[str]:
    return sorted(".".join(path.name.split(".")[:2]) for path in folder.rglob("*.npy"))


def test_steps_are_counted_from_the_first_iteration_and_chosen(tmp_path):
    training = Training(tmp_path, iteration="11|13", initial_iteration=10)
    for step in range(5):
        training.step(step, training.info(0))
    training.dumper.close()
    assert sorted(path.name for path in (tmp_path / "rank_0/Net/0").iterdir()) == ["11", "13"]


@pytest.mark.parametrize(("rank", "there"), [(1, True), (2, False)])
def test_only_chosen_devices_dump(tmp_path, rank, there):
    training = Training(tmp_path, rank=rank, support_device=[0, 1])
    training.step(0, training.info(0))
    training.dumper.close()
    assert (tmp_path / f"rank_{rank}").exists() == there


def test_each_network_is_a_graph_of_its_own(tmp_path):
    training = Training(tmp_path)
    training.step(0, training.info(0), training.info(1, network="teacher"), training.info(2, network="", op="aten.mm"))
    training.dumper.close()
    assert names(tmp_path / "rank_0/Net/0") == ["mm.Default_fc_mm-op0", "relu.Default_fc_relu-op0"]
    assert names(tmp_path / "rank_0/Net/1") == ["relu.Default_fc_relu-op0"]


def test_modules_are_left_to_operators_unless_they_are_asked_for(tmp_path):
    for level, expected in (("operator", ["relu.Default_fc_relu-op0"]), ("module", ["Linear.Default_fc_Linear-op0"])):
        training = Training(tmp_path / level, level=level)
        module = training.info(1, kind="output", op="", type="Linear")
        training.step(0, *([training.info(0)] if level == "operator" else []), module)
        training.dumper.close()
        assert names(tmp_path / level) == expected


def test_inputs_and_outputs_are_chosen(tmp_path):
    for direction, expected in ((0, {"input", "output"}), (1, {"input"}), (2, {"output"})):
        folder = tmp_path / str(direction)
        training = Training(folder, level="module", input_output=direction)
        infos = [
            training.info(0, kind="output", op="", type="Linear"),
            training.info(1, kind="module_input", op="", type="Linear", slot="input.0"),
        ]
        training.step(0, *infos)
        training.dumper.close()
        assert {path.name.split(".")[-5] for path in folder.rglob("*.npy")} == expected


def test_statistics_alone_need_no_values(tmp_path):
    training = Training(tmp_path, saved_data="statistic", statistic_category=["max", "count"])
    assert not training.dumper.keeps
    training.step(0, training.info(0), training.info(1, kind="weight", op="", slot="weight"))
    training.dumper.close()
    assert not list(tmp_path.rglob("*.npy"))
    with open(tmp_path / "rank_0/Net/0/0/statistic.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["Op Name"], row["Max Value"], row["Count"]) for row in rows] == [
        ("Default/fc/relu-op0", "5.0", "6"),
        ("fc.weight", "5.0", "6"),
    ]
    assert int(rows[0]["Timestamp"]) < int(rows[1]["Timestamp"])


def test_a_sample_is_the_first_values_and_statistics_are_of_all(tmp_path):
    training = Training(tmp_path, more={"sample_mode": 1, "sample_num": 2}, saved_data="full")
    training.step(0, training.info(0))
    training.dumper.close()
    (path,) = tmp_path.rglob("*.npy")
    assert np.load(path).tolist() == [0, 1]
    _, tensors = scan(tmp_path)
    assert {one.stats.max for one in tensors if one.stats is not None} == {5.0}


def test_plain_values_of_an_asynchronous_dump_are_read_back(tmp_path):
    training = Training(tmp_path, "async", more={"file_format": "bin"})
    training.step(0, training.info(0))
    training.dumper.close()
    (path,) = tmp_path.rglob("*.bin")
    assert path.read_bytes() == VALUE.tobytes()
    _, (one,) = scan(tmp_path)
    assert (one.info.node, one.info.op, one.raw.shape) == ("fc", "aten.relu", (2, 3))


def test_a_long_name_is_found_again_through_the_mapping_file(tmp_path):
    training = Training(tmp_path)
    training.step(0, training.info(0, node="x" * 300))
    training.dumper.close()
    (path,) = tmp_path.rglob("*.npy")
    short, long = (path.parent / "mapping.csv").read_text().strip().split(",")
    assert short == path.name
    assert "x" * 300 in long
    _, (one,) = scan(tmp_path)
    assert one.info.node == "x" * 300


def test_the_first_overflows_are_dumped_with_what_they_were_given(tmp_path):
    training = Training(tmp_path, op_debug_mode=3, overflow_number=1)
    info = training.info(0, op="aten.log")
    assert training.dumper.wants_step(0)
    with np.errstate(all="ignore"):
        for given in (np.ones(3, np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)):
            training.dumper.ran(ran(info, given, np.log(given)))
    training.dumper.step_ended(StepRecord(0, 1e9, 0.1))
    assert not training.dumper.wants_step(1)
    training.dumper.close()
    assert names(tmp_path) == ["log.Default_fc_log-op0"] * 2
    (told,) = tmp_path.rglob("Opdebug*.json")
    facts = json.loads(told.read_text())
    assert facts["stack"] == [{"file": "net.py", "line": 3, "code": "y = x.log()"}]
    assert facts["outputs"][0]["neg_inf"] == 3


def test_a_module_that_overflows_is_dumped_with_what_it_was_given(tmp_path):
    training = Training(tmp_path, level="module", op_debug_mode=3)
    given = training.info(0, kind="module_input", op="", type="Linear", slot="input.0")
    made = training.info(1, kind="output", op="", type="Linear")
    training.step(0, given, made)
    training.step(1, given, made, value=np.full((2, 3), np.nan, np.float32))
    training.dumper.close()
    assert [path.name for path in (tmp_path / "rank_0/Net/0").iterdir()] == ["1"]
    assert len(list(tmp_path.rglob("*.npy"))) == 2


def test_a_forked_copy_of_the_training_dumps_nothing(tmp_path, monkeypatch):
    training = Training(tmp_path)
    real = os.getpid()
    monkeypatch.setattr("tensight.dump.dumper.os.getpid", lambda: real + 1)
    training.step(0, training.info(0))
    training.dumper.close()
    assert not list(tmp_path.rglob("*"))


def test_a_graph_of_the_run_stands_beside_the_tensors_under_the_same_names(tmp_path):
    training = Training(tmp_path)
    training.step(0, training.info(0))
    builder = GraphBuilder("step 2", 2)
    scope = builder.scope("model", "fc", "Linear")
    weight = builder.add("weight", scope, kind="parameter")
    builder.add("aten.relu", scope, inputs=(weight,), stack=builder.stack([Frame("net.py", 3, "", "relu(x)")]))
    training.dumper.close([builder.build()])
    data = (tmp_path / "rank_0/graphs/ms_output_trace_code_graph_0.pb").read_bytes()
    node = decode(data, "graph").nodes["Default/fc/relu-op0"]
    assert node.inputs == ("fc.weight",)
    assert node.stack == (Source("net.py", 3, "relu(x)"),)
    assert names(tmp_path) == ["relu.Default_fc_relu-op0"]


@pytest.mark.parametrize(("rank", "there"), [(1, ["rank_1"]), (5, [])])
def test_a_rank_that_is_known_late_names_its_folder_at_the_end(tmp_path, rank, there):
    known: list[int] = []
    training = Training(tmp_path, support_device=[0, 1])
    training.dumper._rank = lambda: known[0] if known else None
    training.step(0, training.info(0))
    known.append(rank)
    training.dumper.close()
    assert [path.name for path in tmp_path.iterdir()] == there
