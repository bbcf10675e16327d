"""Dumps that others made, opened as runs: values, statistics, conditions, graphs, ranks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tensight
from tensight.cli import group
from tensight.dump.importing import import_dump
from tensight.dump.readers import scan
from tensight.errors import NameNotFound
from tensight.store import is_run
from tests.dump import makers
from tests.server.serving import client

GOLDEN = Path(__file__).parent / "golden"
NET = "Default_network-WithLossCell__backbone-Net_"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Runs made of dumps go to a folder of this test."""
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


def test_a_dump_of_mindspore_itself_opens_as_a_run_with_modules_lines_and_graph():
    run = tensight.open(GOLDEN / "mindspore-2.10")
    assert run.info.framework == "mindspore"
    assert run.info.framework_version.startswith("2.")
    assert run.steps.numbers == [0, 1]
    assert not run.lost
    assert {"first", "act", "head"} <= {module.path for module in run.networks[0].modules}
    (node,) = run.select("^head/BiasAdd$", regex=True)
    assert node.source.file == "/home/user/train/train.py"
    path = next((GOLDEN / "mindspore-2.10/rank_0/Net/0/1").glob(f"BiasAdd.{NET}head-Dense*"))
    tensor = node.tensors(step=1)[0]
    assert tensor.numpy().tobytes() == np.load(path).tobytes()
    assert "head/MatMul" in run.affected("first/MatMul").names
    assert "first.weight" in run.affected("head/MatMul", up=True).names


def test_the_conditions_hit_what_mindspore_dumped_and_only_that():
    run = tensight.open(GOLDEN / "mindspore-2.10")
    bad = {
        (int(path.parent.name), path.name.split(".")[0])
        for path in GOLDEN.glob("mindspore-2.10/rank_0/Net/0/*/*.npy")
        if not np.isfinite(np.load(path)).all()
    }
    held = run.check(tensight.TensorOverflow()).held
    assert {(hit.step, hit.op) for hit in held} == bad
    assert held[0].op == "MatMul"
    assert held[0].node == "first"
    (first,) = run.hits.held.where(condition="OO")
    assert (first.step, first.op) == (1, "MatMul")


@pytest.mark.parametrize("name", ["msprobe-26.2-statistics", "msprobe-26.2-tensor"])
def test_a_dump_of_msprobe_opens_as_a_run_with_modules_gradients_and_lines(name):
    run = tensight.open(GOLDEN / name)
    assert run.info.framework == "torch"
    assert not run.lost
    held = run.check(tensight.TensorOverflow()).held
    assert {hit.step for hit in held} == {1}
    assert {"gradient", "output", "output_gradient"} <= {hit.kind for hit in held}
    assert run.tensor("head", "weight.grad", step=1).stats.nan
    assert run.tensor("first", "output", step=1, kind="output").info.source.file == "/home/user/train/probe.py"


def test_tensors_of_msprobe_are_read_bit_by_bit_without_torch():
    run = tensight.open(GOLDEN / "msprobe-26.2-tensor")
    weight = run.tensor("first", "weight", step=1).numpy()
    assert weight.shape == (8, 4)
    facts = json.loads(next(GOLDEN.glob("msprobe-26.2-tensor/step1/*/dump.json")).read_text())["data"]
    said = facts["Module.first.Linear.forward.0"]["parameters"]["weight"]
    assert float(weight.max()) == pytest.approx(said["Max"], rel=1e-6)


def test_a_dump_of_the_first_version_is_read(tmp_path):
    value = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    makers.bin_of_r11(tmp_path / "d", "Default/network-TrainStep/conv1-Conv2d/Conv2D-op12.output.0", value, step=2)
    makers.bin_of_r11(tmp_path / "d", "Default/network-TrainStep/conv1-Conv2d/Conv2D-op12.input.1", value[0], step=2)
    makers.bin_of_r11(tmp_path / "d", "conv1.weight.output.0", value, step=2)
    run = tensight.open(tmp_path / "d")
    assert run.steps.numbers == [2]
    assert run.tensor("conv1", "output", step=2).numpy().tobytes() == value.tobytes()
    assert run.tensor("conv1", "input.1", step=2).numpy().tobytes() == value[0].tobytes()
    assert run.tensor("conv1", "weight", step=2).stats.max == 1.0


def test_a_dump_of_r13_is_read_without_its_order_of_execution(tmp_path):
    """Names without a dtype, as MindSpore 1.3 to 1.10 wrote them, of a folder of which only the tensors are left."""
    place = tmp_path / "d/rank_0/LeNet/0/3"
    place.mkdir(parents=True)
    value = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    head = "Conv2D.Default_network-WithLossCell__backbone-LeNet5_conv1-Conv2d_Conv2D-op12.0.0.1623124369613540"
    np.save(place / f"{head}.output.0.DefaultFormat.npy", value)
    np.save(place / f"{head}.input.1.NCHW.npy", value[0])
    np.save(place / "Parameter.conv1.weight.0.0.1623124369613400.output.0.DefaultFormat.npy", value)
    run = tensight.open(tmp_path / "d")
    assert not run.lost
    assert run.steps.numbers == [3]
    assert [(module.path, module.type) for module in run.networks[0].modules] == [("", "LeNet"), ("conv1", "Conv2d")]
    assert run.tensor("conv1", "output", step=3).numpy().tobytes() == value.tobytes()
    assert run.tensor("conv1", "input.1", step=3).numpy().tobytes() == value[0].tobytes()
    assert run.tensor("conv1", "weight", step=3).numpy().tobytes() == value.tobytes()


def test_a_dump_of_an_ascend_device_is_read_as_its_format_is_published(tmp_path):
    given, made = np.ones((2, 3), np.float16), np.full((4,), np.inf, np.float32)
    makers.ascend(tmp_path / "d", "MatMul.Default_fc_MatMul-op1", [given], [made], step=5)
    run = tensight.open(tmp_path / "d")
    assert run.tensors
    values = {info.slot: run.select("MatMul").tensors(slot=info.slot)[0].numpy() for info in run.tensors.values()}
    assert values["input.0"].tobytes() == given.tobytes()
    assert values["output.0"].tobytes() == made.tobytes()
    assert run.check("TO on *").held[0].actual == {"inf": 4.0}


def test_statistics_without_values_are_enough_for_conditions(tmp_path):
    place = tmp_path / "d/rank_0/Net/0/3"
    place.mkdir(parents=True)
    (place / "statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,"
        "Count,Negative Zero Count,Positive Zero Count,NaN Count,Negative Inf Count,Positive Inf Count,Zero Count\n"
        'MatMul,Default/fc/MatMul-op0,0,0,17,output,0,24,Float32,"(2,3)",4.5,-1,0.5,6,1,4,1,0,0,0\n'
    )
    run = tensight.open(tmp_path / "d")
    (held,) = run.check("TO on *").held
    assert (held.step, held.node, held.actual) == (3, "fc", {"nan": 1.0})
    assert len(run.check("TL(max_gt=4) on *").held) == 1
    assert not run.check("TL(max_gt=5) on *").held


def test_several_ranks_are_one_run_and_a_missing_one_is_named(tmp_path):
    for rank in (0, 1, 3):
        makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.full(3, rank, np.float32), rank=rank)
    run = tensight.open(tmp_path / "d")
    assert sorted(run.readers) == [0, 1, 3]
    assert run.tensor("act", "output", rank=3).numpy().tolist() == [3, 3, 3]
    assert any("no data of rank 2; the others were read" in sentence for sentence in run.lost)
    assert [node.rank for node in run.select("ReLU", ranks=[1, 3])] == [1, 3]


def test_weights_of_following_steps_show_how_they_changed(tmp_path):
    for step, value in enumerate((1.0, 1.0, 2.0)):
        makers.npy(tmp_path / "d", "Parameter.fc_weight.output.0", np.full((2, 2), value, np.float32), step=step)
    run = tensight.open(tmp_path / "d")
    held = run.check("WNC on weight:*").held
    assert [hit.step for hit in held] == [1]


def test_a_long_name_is_found_through_the_mapping_file(tmp_path):
    path = makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.ones(3, np.float32))
    path.rename(path.with_name("abc.npy"))
    (path.parent / "mapping.csv").write_text(f"abc.npy,{path.name.replace('act', 'x' * 300)}\n")
    run = tensight.open(tmp_path / "d")
    assert run.select("x" * 300)


def test_an_imported_run_stands_alone(tmp_path):
    shutil.copytree(GOLDEN / "mindspore-2.10", tmp_path / "d")
    made = import_dump(tmp_path / "d", tmp_path / "run")
    shutil.rmtree(tmp_path / "d")
    run = tensight.open(tmp_path / "run")
    assert made.formats == ("MindSpore 2.x .npy",)
    path = next((GOLDEN / "mindspore-2.10/rank_0/Net/0/0").glob(f"BiasAdd.{NET}first-Dense*"))
    assert run.select("first/BiasAdd").tensors(step=0)[0].numpy().tobytes() == np.load(path).tobytes()


def test_opening_a_dump_leaves_the_values_where_they_are_and_reads_it_once(tmp_path):
    makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.ones(1000, np.float32))
    first = tensight.open(tmp_path / "d")
    assert tensight.open(tmp_path / "d").path == first.path
    assert not list(first.path.rglob("*.safetensors"))
    makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.ones(1000, np.float32), step=1)
    assert tensight.open(tmp_path / "d").steps.numbers == [0, 1]


def test_links_to_files_count_only_in_the_own_cache(tmp_path):
    makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.ones(3, np.float32))
    opened = tensight.open(tmp_path / "d")
    foreign = tmp_path / "downloaded"
    shutil.copytree(opened.path, foreign)
    assert opened.tensor("act", "output").numpy().tolist() == [1, 1, 1]
    with pytest.raises(NameNotFound, match="not kept"):
        tensight.open(foreign).tensor("act", "output").numpy()


def test_the_commands_work_straight_on_a_dump(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dump = str(GOLDEN / "mindspore-2.10")
    checked = CliRunner().invoke(group, ["check", dump, "--json"])
    assert {row["condition"] for row in json.loads(checked.stdout)["hits"]} >= {"TO", "OO"}
    compared = CliRunner().invoke(group, ["compare", dump, dump, "--json"])
    assert json.loads(compared.stdout)["verdict"] == "identical"
    imported = CliRunner().invoke(group, ["import", dump, "--json"])
    assert is_run(tmp_path / json.loads(imported.stdout)["folder"])
    assert json.loads(imported.stdout)["steps"] == 2


def test_the_page_shows_a_dump_with_its_finding_hits_and_values():
    with client(GOLDEN / "mindspore-2.10") as page:
        (listed,) = page.get("/api/runs").json()
        assert (listed["id"], listed["steps"], listed["findings"]) == ("mindspore-2.10", 2, 1)
        assert page.get("/api/runs/mindspore-2.10/graphs").json()
        hits = page.get("/api/runs/mindspore-2.10/hits").json()["hits"]
        assert {hit["condition"] for hit in hits} == {"TO", "OO"}


def test_a_finding_names_the_first_operator_that_gave_a_value_that_is_not_finite(tmp_path):
    (found,) = tensight.open(GOLDEN / "mindspore-2.10").findings
    assert (found.fault, found.since_step) == ("nonfinite_value", 1)
    assert (found.where.module, found.where.op, found.where.line) == ("first", "MatMul", 18)
    assert "what it was given was not dumped" in found.why
    makers.npy(tmp_path / "d", "Log.Default_fc_Log-op0.input.0", np.zeros(3, np.float32))
    makers.npy(tmp_path / "d", "Log.Default_fc_Log-op0.output.0", np.full(3, -np.inf, np.float32), time=1)
    (found,) = tensight.open(tmp_path / "d").findings
    assert found.title == "fc Log gives -inf"
    assert "all it was given was finite" in found.why


def test_a_healthy_dump_has_no_finding(tmp_path):
    for step in range(3):
        makers.npy(tmp_path / "d", "ReLU.Default_act_ReLU-op0.output.0", np.ones(3, np.float32), step=step)
    assert not tensight.open(tmp_path / "d").findings


def test_each_reader_passes_over_the_files_of_the_others():
    for name in ("mindspore-2.10", "msprobe-26.2-statistics"):
        found, _ = scan(GOLDEN / name)
        assert len(found.formats) == 1


def test_dumps_of_a_few_operators_are_compared_by_these(tmp_path):
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    for folder in (right, wrong):
        shutil.copytree(GOLDEN / "mindspore-2.10", folder)
        for path in folder.rglob("*.npy"):
            if not path.name.startswith(f"MatMul.{NET}"):
                path.unlink()  # as when a dump is told the names of a few kernels
    for path in wrong.rglob(f"MatMul.{NET}head*.npy"):
        np.save(path, np.load(path) * np.float32(1.5))

    def compared(other: Path) -> dict:
        return json.loads(CliRunner().invoke(group, ["compare", str(right), str(other), "--json"]).stdout)

    assert compared(right)["verdict"] == "identical"
    found = compared(wrong)
    assert (found["verdict"], found["first_divergence"]["module"]) == ("different", "head")
    assert found["first_divergence"]["op"] == "MatMul"
    assert "1.5 times" in found["first_divergence"]["likely_cause"]
