"""Graph files and profiles that MindSpore wrote, opened as runs by a process that has no MindSpore."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tensight
from tensight.cli import group
from tensight.dump import graph_files, ir_text, profiler_files
from tensight.errors import FormatError
from tensight.profiling import files as profile_files

GOLDEN = Path(__file__).parent / "golden"
PREFIX = "Default/network-WithLossCell/_backbone-Net/"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs made of such files go to a folder of this test."""
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


def golden(name: str, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    target = folder / name
    target.write_bytes(gzip.decompress((GOLDEN / f"{name}.gz").read_bytes()))
    return target


def test_operators_shapes_and_lines_of_an_ir_are_read(tmp_path: Path) -> None:
    graph = ir_text.read(golden("24_execute_0139.ir", tmp_path))
    product = graph.nodes[PREFIX + "head-Dense/MatMul-op0"]
    assert product.type == "MatMul"
    assert product.inputs == (PREFIX + "act-ReLU/ReLU-op0", PREFIX + "Load-op1")
    assert product.outputs == ("float32[4, 3]",)
    user = next(line for line in product.stack if line.file == "/home/user/train/train.py")
    assert (user.line, user.code) == (13, "return self.head(self.act(self.first(x)))")
    assert graph.nodes["first.weight"].type == "Parameter"
    assert graph.nodes["accum.first.weight"].type == "State"
    assert graph.nodes["inputs0"].outputs == ("float32[4, 6]",)
    update = graph.nodes["Default/optimizer-SGD/SGD-op3"]
    assert "first.weight" in update.inputs
    assert any("Grad_MatMul" in name for name in update.inputs)


def test_an_ir_with_scopes_alone_and_one_with_many_subgraphs_are_read_too(tmp_path: Path) -> None:
    final = ir_text.read(golden("hwopt_common_final_graph_0_0133.ir", tmp_path))
    relu = next(node for node in final.nodes.values() if node.type == "ReLU")
    assert relu.name.startswith(PREFIX + "act-ReLU/ReLU-op")
    assert final.nodes[relu.inputs[0]].type == "BiasAdd"
    early = ir_text.read(golden("01_type_inference_0001.ir", tmp_path))
    assert len(early.nodes) > 300
    called = [node for node in early.nodes.values() if node.type == "call" and node.inputs]
    assert called, "what a subgraph answers goes into the call"


def test_the_text_and_the_protobuf_file_tell_the_same_forward_pass(tmp_path: Path) -> None:
    text = graph_files.read(golden("24_execute_0139.ir", tmp_path))
    packed = graph_files.read(golden("ms_output_after_opt_0.pb", tmp_path))
    for name, node in packed.nodes.items():
        if name.startswith(PREFIX):
            assert text.nodes[name].type == node.type
            assert text.nodes[name].inputs == node.inputs


def test_a_folder_of_passes_is_shown_by_what_is_executed(tmp_path: Path) -> None:
    folder = tmp_path / "ir"
    for name in ("01_type_inference_0001.ir", "24_execute_0139.ir", "ms_output_after_opt_0.pb"):
        golden(name, folder)
    assert [file.name for file in graph_files.files(folder)] == ["24_execute_0139.ir"]
    (folder / "24_execute_0139.ir").unlink()
    assert [file.name for file in graph_files.files(folder)] == ["ms_output_after_opt_0.pb"]
    (folder / "ms_output_after_opt_0.pb").unlink()
    assert [file.name for file in graph_files.files(folder)] == ["01_type_inference_0001.ir"]


def test_a_graph_file_opens_as_a_run_that_can_be_walked(tmp_path: Path) -> None:
    run = tensight.open(golden("24_execute_0139.ir", tmp_path))
    assert run.info.framework == "mindspore"
    (network,) = run.networks
    assert network.type == "Net"
    assert {"first", "act", "head"} <= {module.path for module in network.modules}
    assert [(one.name, one.shape) for one in network.parameters if one.name.startswith("head")] == [
        ("head.weight", (3, 8)),
        ("head.bias", (3,)),
    ]
    assert "head/MatMul" in run.affected("first/MatMul").names
    assert "first.weight" in run.affected("head/MatMul", up=True).names
    assert tensight.open(tmp_path / "24_execute_0139.ir").info == run.info  # made once


def test_a_profile_is_imported_and_shown(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "profile", tmp_path / "vm_1_ascend_ms")
    ran = CliRunner().invoke(
        group, ["import", str(tmp_path / "vm_1_ascend_ms"), "--run-dir", str(tmp_path / "run"), "--json"]
    )
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output) == {
        "folder": str(tmp_path / "run"),
        "kind": "profile",
        "operators": 29,
        "troubles": [],
    }
    (profile,) = profile_files.need(tmp_path / "run")
    assert [one.name for one in profile.operators[:3]] == ["MatMul", "MaskedFill", "ReduceSum"]
    assert profile.operators[0].calls == 15
    assert profile.operators[0].seconds == pytest.approx(0.619309)
    assert profile.spans[0].start == 0.0
    assert {span.name for span in profile.spans} >= {"AddExt", "MatMul"}
    assert profile_files.trace_file(tmp_path / "run").is_file()
    shown = CliRunner().invoke(group, ["profile", "--show", str(tmp_path / "run")])
    assert shown.exit_code == 0
    assert "MaskedFill" in shown.output
    assert "619.3 ms" in shown.output


def test_a_table_of_an_accelerator_is_read(tmp_path: Path) -> None:
    """Written by hand from the published columns."""
    folder = tmp_path / "rank_3" / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    (folder / "op_statistic.csv").write_text(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "3,MatMulV2,AI_CORE,12,2400.5,100,200.04,300,60.0\n"
    )
    profiles, troubles = profiler_files.load(tmp_path)
    assert troubles == []
    profile, trace = profiles[3]
    assert trace is None
    assert (profile.device, profile.operators[0].name, profile.operators[0].calls) == ("ascend", "MatMulV2", 12)
    assert profile.operators[0].seconds == pytest.approx(0.0024005)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.ir", "", "no subgraph with nodes"),
        ("other.ir", "int main() { return 0; }\n" * 50, "no subgraph with nodes"),
        ("cut.pb", "\x22\xff", "is not a graph of MindSpore"),
    ],
)
def test_a_file_that_is_no_graph_gets_one_sentence(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    ran = CliRunner().invoke(group, ["import", str(tmp_path / name), "--run-dir", str(tmp_path / "run")])
    assert ran.exit_code != 0
    assert isinstance(ran.exception, FormatError)
    assert words in str(ran.exception)
    assert not (tmp_path / "run").exists()


def test_a_damaged_table_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "cpu_op_detail_info_0.csv").write_text(
        "op_type,op_name,op_occurrences,op_total_time(ms)\nMatMul,a,many,1\n"
    )
    with pytest.raises(FormatError, match="is no table of operators"):
        profiler_files.load(tmp_path)


def test_an_ir_cut_anywhere_is_read_as_far_as_it_goes_or_refused(tmp_path: Path) -> None:
    lines = golden("24_execute_0139.ir", tmp_path).read_text().splitlines()
    whole = len(ir_text.parse(lines, "whole").nodes)
    for length in range(0, len(lines), 97):
        try:
            graph = ir_text.parse(lines[:length], "cut")
        except FormatError:
            continue
        assert len(graph.nodes) <= whole


ALONE = """
import sys
from pathlib import Path
import tensight
run = tensight.open(Path(sys.argv[1]))
assert run.networks[0].type == "Net"
assert "mindspore" not in sys.modules and "torch" not in sys.modules
print("read")
"""


def test_no_framework_is_imported(tmp_path: Path) -> None:
    file = golden("24_execute_0139.ir", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, str(file)], capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "read\n"
