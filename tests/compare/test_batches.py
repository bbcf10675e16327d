"""One batch for both sides, from whatever holds it; and two pipelines, stage by stage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tensight
from tensight.capture.deep import DeepSteps
from tensight.compare import tfrecord
from tensight.compare.tfrecord import _masked
from tensight.errors import FormatError, UsageError
from tensight.session.settings import Settings
from tensight.session.watching import Watching


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(**features: Any) -> bytes:
    """A tf.train.Example, as TensorFlow writes it."""
    pairs = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            kind, data = 1, field(1, value)
        elif value.dtype.kind == "f":
            kind, data = 2, field(1, value.astype("<f4").tobytes())
        else:
            kind, data = 3, field(1, b"".join(varint(int(one)) for one in value))
        pairs += field(1, field(1, name.encode()) + field(2, field(kind, data)))
    return field(1, pairs)


def records(path: Path, *all_records: bytes) -> Path:
    with path.open("wb") as file:
        for record in all_records:
            head = struct.pack("<Q", len(record))
            file.write(head + struct.pack("<I", _masked(head)) + record + struct.pack("<I", _masked(record)))
    return path


def test_a_batch_comes_from_numpy_files(tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", x=x, y=np.arange(3))
    assert np.array_equal(tensight.batch(tmp_path / "x.npy")["0"], x)
    assert np.array_equal(tensight.batch(tmp_path / "both.npz", rows=2)["x"], x[:2])


def test_a_batch_comes_from_tfrecords_without_tensorflow(tmp_path: Path) -> None:
    x = np.random.RandomState(0).randn(5, 4).astype(np.float32)
    path = records(
        tmp_path / "x.tfrecord",
        *(example(x=row, label=np.array([number, -number]), image=b"abc") for number, row in enumerate(x)),
    )
    found = tensight.batch(path, rows=3)
    assert np.array_equal(found["x"], x[:3])
    assert found["label"].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert found["image"].tobytes() == b"abcabcabc"


def test_the_checksum_is_that_of_tfrecord_files() -> None:
    assert _masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("damage", ["cut", "length", "value", "no example"])
def test_damaged_tfrecords_are_refused_with_a_sentence(tmp_path: Path, damage: str) -> None:
    path = records(tmp_path / "x.tfrecord", example(x=np.ones(4, np.float32)))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-3:]
    elif damage == "length":
        data[3] ^= 0xFF
    elif damage == "value":
        data[-8] ^= 0xFF
    else:
        records(path, b"\xff\xff\xff\xff")
        data = bytearray(path.read_bytes())
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.tfrecord"):
        tensight.batch(path)


def test_a_batch_comes_from_a_run_that_kept_it_and_from_a_reference(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3))
    x = torch.randn(6, 4)
    tensight.reference(tmp_path / "ref", model, x)
    settings = Settings(run_dir=tmp_path / "run", steps=DeepSteps.parse("0"), budget=100.0, recommended=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Watching(model, optimizer, settings, quiet=True):
        model(x).sum().backward()
        optimizer.step()
    assert np.array_equal(tensight.batch(tmp_path / "ref")["0"], x.numpy())
    assert np.array_equal(tensight.batch(tmp_path / "run")["input.0"], x.numpy())
    with pytest.raises(UsageError, match="kept no input of step 7"):
        tensight.batch(tmp_path / "run", step=7)


def test_a_file_with_objects_in_it_is_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(FormatError, match="NumPy"):
        tensight.batch(tmp_path / "x.npy")
    with pytest.raises(UsageError, match="read from"):
        tensight.batch(tmp_path / "x.csv")


def pipeline(**changes: Any) -> tensight.Pipeline:
    parts = {
        "process": lambda images: (images / 255.0 - 0.5).astype(np.float32),
        "model": lambda x: x.reshape(len(x), -1) @ np.linspace(-1, 1, 3 * 16 * 5).reshape(-1, 5).astype(np.float32),
        "metric": lambda out, labels: float(np.mean(out.argmax(1) == labels)),
    }
    return tensight.Pipeline(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "first", "note"),
    [
        ({}, "", ""),
        ({"process": lambda images: images.astype(np.float32) - 127.5}, "processing", "255 times"),
        ({"process": lambda i: (i[:, ::-1] / 255.0 - 0.5).astype(np.float32)}, "processing", "RGB against BGR"),
        ({"model": lambda x: np.tanh(x.reshape(len(x), -1)[:, :5])}, "model", "relative error"),
        ({"metric": lambda out, labels: float(np.sum(out.argmax(1) == labels))}, "metric", "against"),
    ],
)
def test_the_stage_in_which_two_pipelines_part_is_named(changes: dict[str, Any], first: str, note: str) -> None:
    random = np.random.RandomState(0)
    images, labels = random.randint(0, 256, (20, 3, 4, 4)), random.randint(0, 2, 20)
    found = tensight.compare_inference(images, labels, pipeline(), pipeline(**changes))
    assert found.first == first
    assert note in next((stage.note for stage in found.stages if stage.name == first), "")
    assert ("every stage agrees" in str(found)) is (first == "")


def test_a_model_that_cannot_take_what_the_other_sides_processing_gives_is_said(tmp_path: Path) -> None:
    def picky(x: Any) -> Any:
        raise TypeError("channels last, please")

    images = np.zeros((4, 3, 4, 4))
    with pytest.raises(TypeError, match="channels last"):  # its own way fails too: that is the user's error
        tensight.compare_inference(images, np.zeros(4), pipeline(), pipeline(model=picky))


def test_a_number_where_a_message_should_stand_is_refused_in_a_sentence() -> None:
    with pytest.raises(FormatError, match="a number stands where a message should"):
        tfrecord.example(b"\x08\x05\x0a\x02\x08\x01")
