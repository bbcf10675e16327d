"""Files of a dump: layout, names, statistics, and a queue that is bounded and says what it dropped."""

from __future__ import annotations

import csv
import errno
import hashlib
import mmap
import os
import threading
import time

import numpy as np
import pytest

from tensight.dump import direct, naming, statistic_csv, writing
from tensight.dump.naming import Label, Labels
from tensight.dump.writing import Asynchronous, File, Synchronous
from tensight.records import TensorInfo
from tensight.stats import statistics

VALUES = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.array(3.5),
    np.empty((0, 4), np.float32),
    np.array([True, False]),
    np.arange(6, dtype=np.int64).reshape(2, 3).T,
    np.array([1 + 2j], np.complex64),
    np.full((2, 2), np.nan, np.float16),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
def test_every_kind_of_tensor_is_read_back_bit_by_bit(tmp_path, value):
    output = Synchronous()
    output.put(File(tmp_path / "a/b.npy", value))
    found = np.load(tmp_path / "a/b.npy")
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert found.tobytes() == np.ascontiguousarray(value).tobytes()
    assert not output.trouble()


def test_a_queue_writes_all_it_took(tmp_path):
    output = Asynchronous(1 << 20, 60.0)
    for number in range(20):
        output.put(File(tmp_path / f"{number}.npy", np.full(1000, number, np.float32)))
    output.append(tmp_path / "order.csv", "a\n")
    output.append(tmp_path / "order.csv", "b\n")
    output.close()
    assert [float(np.load(tmp_path / f"{number}.npy")[0]) for number in range(20)] == list(range(20))
    assert (tmp_path / "order.csv").read_text() == "a\nb\n"
    assert not output.trouble()


@pytest.mark.parametrize("past", [-3, 0, 1, direct._BUFFER], ids=str)  # of what the buffer of the disk holds
@pytest.mark.parametrize("suffix", ["npy", "bin"])
@pytest.mark.parametrize("start", [0, 64], ids=["at a block", "beside"])
def test_large_tensors_are_read_back_bit_by_bit(tmp_path, past, suffix, start):
    memory = np.frombuffer(mmap.mmap(-1, 3 * direct._BUFFER), np.uint8)
    values = memory[start : start + direct._BUFFER + past]
    values[:] = np.random.default_rng(0).integers(0, 256, len(values), np.uint8)
    output = Asynchronous(1 << 30, 60.0)
    output.put(File(tmp_path / f"large.{suffix}", values))
    output.close()
    read = np.load if suffix == "npy" else lambda path: np.fromfile(path, np.uint8)
    assert np.array_equal(read(tmp_path / f"large.{suffix}"), values)
    assert not output.trouble()


def test_where_the_page_cache_cannot_be_passed_files_are_written_as_others_are(tmp_path, monkeypatch):
    monkeypatch.setattr(direct, "_FLAG", 1 << 31)
    opened = os.open
    tried = []

    def refuse(path, flags, *args):
        if flags & (1 << 31):
            tried.append(path)
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", refuse)
    output = Asynchronous(1 << 30, 60.0)
    for number in range(3):
        output.put(File(tmp_path / f"{number}.npy", np.full(direct.LARGE, number, np.uint8)))
    output.close()
    assert [int(np.load(tmp_path / f"{number}.npy")[-1]) for number in range(3)] == [0, 1, 2]
    assert len(tried) == 1  # asked once


def test_a_disk_that_fills_inside_of_a_large_tensor_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda handle, blocks: 100)
    output = Asynchronous(1 << 30, 60.0)
    output.put(File(tmp_path / "large.npy", np.zeros(direct.LARGE, np.uint8)))
    output.close()
    assert output.trouble() == ["1 files of the dump could not be written, the first large.npy: the disk is full"]


def test_a_queue_writes_little_too_when_nothing_follows(tmp_path):
    output = Asynchronous(1 << 30, 60.0)
    output.put(File(tmp_path / "a.npy", np.zeros(10)))
    deadline = time.monotonic() + 60
    while not output.written.files and time.monotonic() < deadline:
        time.sleep(0.01)
    assert output.written.files == 1
    output.close()


def test_the_thread_is_woken_for_a_pile_and_not_for_each_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_LONGEST_REST", 1000.0)
    output = Asynchronous(1 << 30, 60.0)
    woken = []
    monkeypatch.setattr(output._changed, "notify_all", lambda: woken.append(1))
    for number in range(64):
        output.put(File(tmp_path / f"{number}.npy", np.zeros(1 << 18, np.uint8)))  # 16 MB in all
    assert len(woken) == 2
    monkeypatch.undo()
    output.close()
    assert len(list(tmp_path.iterdir())) == 64


def test_a_full_queue_drops_what_finds_no_room_and_says_so(tmp_path, monkeypatch):
    go = threading.Event()
    write = writing.write
    monkeypatch.setattr(writing, "write", lambda *args: (go.wait(60), write(*args)))
    output = Asynchronous(10_000, 0.0)
    for number in range(5):
        output.put(File(tmp_path / f"{number}.npy", np.zeros(1000, np.float32)))
    go.set()
    output.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npy", "1.npy"]
    (said,) = output.trouble()
    assert said.startswith("3 tensors (12,000 bytes) were not dumped: the disk did not keep up")


def test_a_disk_that_hangs_does_not_hold_the_program_and_what_is_not_written_is_said(tmp_path, monkeypatch):
    go = threading.Event()
    write = writing.write
    monkeypatch.setattr(writing, "write", lambda *args: (args[0].name == "0.npy" or go.wait(60), write(*args)))
    output = Asynchronous(1 << 20, 60.0, hung=0.3)
    for number in range(4):
        output.put(File(tmp_path / f"{number}.npy", np.zeros(1000, np.float32)))
    output.append(tmp_path / "order.csv", "a\n")
    began = time.monotonic()
    assert output.close() is False
    assert time.monotonic() - began < 30
    assert [path.name for path in tmp_path.iterdir()] == ["0.npy"]
    (said,) = output.trouble()
    assert said == (
        "4 files of the dump (12,000 bytes) were not written, and the last one may be cut off: the disk has written"
        " nothing for 0 s"
    )
    go.set()
    output._thread.join(60)
    assert not output._thread.is_alive()  # a disk that comes back is given nothing more to do
    assert not (tmp_path / "3.npy").exists()


def test_a_slow_disk_is_waited_for_as_long_as_it_gets_on(tmp_path, monkeypatch):
    write = writing.write
    monkeypatch.setattr(writing, "write", lambda *args: (time.sleep(0.2), write(*args)))
    output = Asynchronous(1 << 20, 60.0, hung=0.5)
    for number in range(6):
        output.put(File(tmp_path / f"{number}.npy", np.zeros(1000, np.float32)))
    assert output.close() is True
    assert len(list(tmp_path.iterdir())) == 6
    assert not output.trouble()


def test_a_tensor_larger_than_the_queue_is_written_when_it_is_alone(tmp_path):
    output = Asynchronous(1, 60.0)
    output.put(File(tmp_path / "large.npy", np.zeros(1000, np.float32)))
    output.close()
    assert (tmp_path / "large.npy").exists()


def test_a_file_that_cannot_be_written_is_counted_and_the_rest_is_written(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    output = Synchronous()
    output.put(File(tmp_path / "taken/a.npy", np.zeros(3)))
    output.put(File(tmp_path / "free/a.npy", np.zeros(3)))
    assert (tmp_path / "free/a.npy").exists()
    assert output.trouble()[0].startswith("1 files of the dump could not be written, the first a.npy")


def test_names_are_those_of_mindspore_and_never_paths():
    hostile = TensorInfo(id=0, kind="operator", node="a/../../etc.b c", slot="output.0", op="aten.re/lu")
    name = naming.file_name(Labels().of(hostile), 17, "float32")
    assert "/" not in name
    assert ".." not in name
    label = Labels().of(TensorInfo(id=1, kind="gradient", node="fc", slot="weight"))
    assert naming.file_name(label, 17, "bfloat16") == (
        "Gradient.Gradients_fc_weight.0.0.17.output.0.DefaultFormat.BFloat16.npy"
    )


def test_two_tensors_never_share_a_name():
    labels = Labels()
    infos = [
        TensorInfo(id=number, kind="output", node=node, slot=slot, type="Linear")
        for number, (node, slot) in enumerate((("a.b", "output.0"), ("a/b", "output.0"), ("x", "output.0.mask")))
    ]
    names = {naming.file_name(labels.of(info), 1, "float32") for info in infos}
    assert len(names) == 3
    assert [labels.of(info) for info in infos] == [labels.of(info) for info in infos]


def test_a_name_that_is_too_long_gets_a_short_one():
    info = TensorInfo(id=0, kind="operator", node="x" * 400, slot="output.0", op="aten.relu")
    name = naming.file_name(Labels().of(info), 1, "float32")
    assert len(name) > naming.LONGEST
    assert len(naming.short_name(name)) < 40


def test_statistics_have_mindspores_columns_and_true_values(tmp_path):
    value = np.array([[1.0, -2.0, 0.0], [np.nan, np.inf, 4.0]], np.float32)
    categories = list(statistic_csv.CATEGORIES)
    row = statistic_csv.Rows(categories).row(
        Label("MatMul", 'Default/a,"b/MatMul-op0', "output", 0), 17, "float32", (2, 3), statistics(value), value
    )
    (tmp_path / "statistic.csv").write_text(statistic_csv.header(categories) + row)
    with open(tmp_path / "statistic.csv", newline="") as file:
        (found,) = csv.DictReader(file)
    assert found["Op Name"] == 'Default/a,"b/MatMul-op0'
    assert found["Shape"] == "(2,3)"
    assert found["Data Size"] == "24"
    assert (float(found["Max Value"]), float(found["Min Value"])) == (4.0, -2.0)
    counts = ("Negative Zero Count", "Positive Zero Count", "NaN Count", "Positive Inf Count", "Zero Count", "Count")
    assert [found[name] for name in counts] == ["1", "2", "1", "1", "1", "6"]
    assert float(found["L2Norm Value"]) == pytest.approx(np.sqrt(21))
    assert found["MD5"] == hashlib.md5(value.tobytes()).hexdigest()
