"""Broken and hostile dumps: a sentence each, and the rest is still read."""

from __future__ import annotations

import json
import os
import struct
import threading
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import tensight
from tensight.cli import group
from tensight.dump.readers import scan
from tensight.errors import FormatError, NameNotFound
from tests.dump import makers

GOOD = "ReLU.Default_act_ReLU-op0.output.0"
BAD = "MatMul.Default_fc_MatMul-op0.output.0"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def dump(tmp_path):
    """A folder with one good tensor, and the path of a file to be broken."""
    makers.npy(tmp_path / "d", GOOD, np.ones(3, np.float32))
    return makers.npy(tmp_path / "d", BAD, np.ones((4, 4), np.float32), time=1)


def told(folder) -> str:
    """What is said of a dump whose good tensor must still be there."""
    run = tensight.open(folder)
    assert run.tensor("act", "output").numpy().tolist() == [1, 1, 1]
    assert len(run.lost) == 1
    return run.lost[0]


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it does not begin like one"),
        (b"\x93NUM", "it does not begin like one"),
        (b"PK\x03\x04" + bytes(100), "it does not begin like one"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "version 9 of the .npy format"),
        (b"\x93NUMPY\x01\x00\xff\xff{'descr'", "its header claims 65,535 bytes"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + b"{}", "its header claims 2,147,483,648 bytes"),
        (header("(1099511627776,)") + bytes(16), "claims 4,398,046,511,104 bytes of values and has 16"),
        (header("(4, 4)") + bytes(10), "is cut off or damaged: it claims 64 bytes of values and has 10"),
        (header("(-4, 4)"), "its header cannot be read"),
        (header("(4.0,)"), "its header cannot be read"),
        (header("__import__('os').system('true')"), "its header cannot be read"),
        (header("(" * 200), "its header cannot be read"),
        (header("(2,)", "'|O'") + bytes(100), "it holds Python objects"),
        (header("(2,)", "[('a', '<f4')]") + bytes(100), "it holds Python objects or records"),
        (header("(2,)", "'<U4'") + bytes(100), "which is no tensor's"),
    ],
)
def test_a_broken_file_gets_a_sentence_and_the_rest_is_read(dump, data, sentence):
    dump.write_bytes(data)
    assert sentence in told(dump.parents[4])


def test_a_file_of_plain_values_with_another_size_than_its_name_claims(tmp_path):
    makers.bin_of_r11(tmp_path / "d", "Default/act/ReLU-op0.output.0", np.ones(3, np.float32))
    path = makers.bin_of_r11(tmp_path / "d", "Default/fc/MatMul-op0.output.0", np.ones((4, 4), np.float32))
    path.write_bytes(bytes(100))
    assert "has 100 bytes, and its name claims 64" in told(tmp_path / "d")


def test_a_file_without_permission_is_named(dump, monkeypatch):
    opened = os.open

    def refuse(path, *args, **kwargs):
        if os.fspath(path) == str(dump):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # who reads is a copy of this process, and refused too
    assert "cannot be read: Permission denied" in told(dump.parents[4])


def test_a_folder_without_permission_is_named(dump, monkeypatch):
    extra = dump.parents[4] / "rank_1"
    extra.mkdir()
    scanned = os.scandir

    def refuse(path="."):
        if os.fspath(path) == str(extra):
            raise PermissionError(13, "Permission denied")
        return scanned(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found, tensors = scan(dump.parents[4])
    assert found.troubles == ["rank_1 cannot be read: Permission denied"]
    assert len(tensors) == 2


def test_a_link_out_of_the_dump_is_not_followed(dump, tmp_path):
    secret = tmp_path / "secret.npy"
    np.save(secret, np.ones(4))
    dump.unlink()
    dump.symlink_to(secret)
    assert "is a link and was not followed" in told(dump.parents[4])


def test_a_link_to_itself_does_not_trap(dump):
    (dump.parent / "again").symlink_to(dump.parents[4])
    found, tensors = scan(dump.parents[4])
    assert len(tensors) == 2
    assert "is a link" in found.troubles[0]


def test_a_pipe_in_place_of_a_file_does_not_hang(dump):
    dump.unlink()
    os.mkfifo(dump)
    _, tensors = scan(dump.parents[4])
    assert len(tensors) == 1


def test_names_that_are_paths_stay_inside(tmp_path):
    place = tmp_path / "d/step0/rank0"
    place.mkdir(parents=True)
    fact = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1, "Min": 1, "Mean": 1, "Norm": 1}
    calls = {
        "Functional.relu.0.forward": {"input_args": [], "output": [{**fact, "data_name": "../../../etc/passwd"}]},
        "Module.act.ReLU.forward.0": {"input_args": [], "output": [fact]},
    }
    (place / "dump.json").write_text(json.dumps({"task": "tensor", "data": calls}))
    found, tensors = scan(tmp_path / "d")
    assert "has no file '../../../etc/passwd'" in found.troubles[0]
    assert len(tensors) == 2


def test_a_packed_tensor_that_would_unfold_to_gigabytes_is_refused(tmp_path):
    place = tmp_path / "d/step0/rank0/dump_tensor_data"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))
    fact = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1, "Min": 1, "data_name": "bomb.pt"}
    call = {"Functional.relu.0.forward": {"input_args": [], "output": [fact]}}
    (place.parent / "dump.json").write_text(json.dumps({"task": "tensor", "data": call}))
    found, tensors = scan(tmp_path / "d")
    assert "is refused: its record archive/data.pkl is packed" in found.troubles[0]
    assert tensors[0].raw is None


def test_a_tensor_file_that_would_run_code_is_refused(tmp_path):
    place = tmp_path / "d/step0/rank0/dump_tensor_data"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "evil.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'touch hacked'\ntR.")
    fact = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1, "Min": 1, "data_name": "evil.pt"}
    call = {"Functional.relu.0.forward": {"input_args": [], "output": [fact]}}
    (place.parent / "dump.json").write_text(json.dumps({"task": "tensor", "data": call}))
    found, _ = scan(tmp_path / "d")
    assert "loading it would call os.system" in found.troubles[0]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ('MatMul,Default/fc/MatMul-op0,0,0,1,output,x,4,Float32,"(1)",1', "1 rows are damaged and were left out"),
        ("MatMul,Default/fc/MatMul-op0", "1 rows are damaged"),
        ('MatMul,Default/fc/MatMul-op0,0,0,1,sideways,0,4,Float32,"(1)",1', "'sideways' 0 is no place of a tensor"),
        ('MatMul,Default/fc/MatMul-op0,0,0,1,output,0,4,Float32,"(1)",one', "1 rows are damaged"),
    ],
)
def test_a_damaged_row_of_statistics_is_counted(dump, row, sentence):
    dump.unlink()
    head = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value"
    (dump.parent / "statistic.csv").write_text(f"{head}\n{row}\n")
    assert sentence in told(dump.parents[4])


def test_a_damaged_graph_is_named(dump):
    dump.unlink()
    place = dump.parents[4] / "rank_0/graphs"
    place.mkdir()
    (place / "ms_output_trace_code_graph_0.pb").write_bytes(b"\x22\xff\xff\xff\xff\x0f")
    assert "is not a graph of MindSpore, or is damaged" in told(dump.parents[4])


def test_a_head_of_an_ascend_file_that_claims_too_much(dump):
    path = makers.ascend(dump.parents[4], "MatMul.Default_fc_MatMul-op1", [], [np.ones(3, np.float32)])
    path.write_bytes(struct.pack("<Q", 1 << 42) + bytes(64))
    dump.unlink()
    assert "its head claims 4,398,046,511,104 bytes" in told(dump.parents[4])


def test_ranks_of_different_versions_are_read_and_said(dump):
    dump.unlink()
    for rank, version in ((0, "2.10.0"), (1, "2.3.1")):
        makers.npy(dump.parents[4], GOOD, np.ones(3, np.float32), rank=rank, time=2)
        place = dump.parents[4] / f"rank_{rank}/.dump_metadata"
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps({"device_target": "CPU", "ms_version": version}))
    run = tensight.open(dump.parents[4])
    assert "mindspore 2.10.0 and mindspore 2.3.1" in " ".join(run.lost)


def test_formats_side_by_side_are_all_read_and_said(dump):
    makers.bin_of_r11(dump.parents[4], "Default/old/ReLU-op0.output.0", np.ones(3, np.float32))
    run = tensight.open(dump.parents[4])
    assert any("holds dumps of several formats" in sentence for sentence in run.lost)
    assert run.tensor("old", "output").numpy().tolist() == [1, 1, 1]


def test_a_folder_that_is_no_dump_gets_one_sentence(tmp_path):
    (tmp_path / "rank_0").mkdir()
    with pytest.raises(FormatError, match="holds no dump that is known here"):
        scan(tmp_path)
    with pytest.raises(NameNotFound, match="there is no dump"):
        scan(tmp_path / "none")
    said = CliRunner().invoke(group, ["import", str(tmp_path / "none")])
    assert isinstance(said.exception, NameNotFound)


def test_thousands_of_broken_files_are_counted_not_listed(tmp_path):
    makers.npy(tmp_path / "d", GOOD, np.ones(3, np.float32))
    path = makers.npy(tmp_path / "d", BAD, np.ones(3, np.float32))
    for number in range(300):
        (path.parent / path.name.replace("fc", f"fc{number}")).write_bytes(b"")
    found, _ = scan(tmp_path / "d")
    assert len(found.troubles) == 200
    assert found.left_out == 100
