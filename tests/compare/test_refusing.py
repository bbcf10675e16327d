"""Broken and malicious checkpoints are refused with one sentence, and nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tensight.cli import main
from tensight.compare import checkpoints
from tensight.errors import CheckpointError

DATA = Path(__file__).parent / "data"


class Calls:
    """Unpickling this makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def archive(path: Path, description: bytes, compression: int = zipfile.ZIP_STORED, **records: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", description)
        file.writestr("archive/version", b"3\n")
        for name, data in records.items():
            file.writestr(f"archive/data/{name.removeprefix('r')}", data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        checkpoints.read(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "made"
    path = archive(tmp_path / "a.pt", pickle.dumps({"w": Calls(trap)}, protocol))
    assert "mkdir" in refused(path)
    assert not trap.exists()


def test_a_file_saved_by_torch_with_a_call_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trap = tmp_path / "made"
    torch.save({"w": torch.ones(2), "x": Calls(trap)}, tmp_path / "a.pt")
    with pytest.raises(SystemExit) as stopped:
        main(["ckpt", "show", str(tmp_path / "a.pt")])
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "mkdir" in said.err
    assert not trap.exists()


def test_a_whole_model_is_refused_with_what_to_save_instead(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    assert "state_dict" in refused(tmp_path / "a.pt")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", ["a.pt", "a.ckpt", "a.safetensors"])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, name: str, keep: float) -> None:
    whole = tmp_path / name
    if name == "a.pt":
        torch.save({"w": torch.randn(40, 40)}, whole)
    else:
        whole.write_bytes((DATA / f"mindspore-2.10{whole.suffix}").read_bytes())
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * keep)])
    refused(whole)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x80\x04" + b"x" * 50, b"\x00" * 100, b"\x89HDF\r\n"])
@pytest.mark.parametrize("name", ["a.pt", "a.ckpt", "a.safetensors"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name)


def test_a_header_of_absurd_length_is_refused(tmp_path: Path) -> None:
    for length in (2**40, 2**63, 10**6):
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", length) + b"{}" + b" " * 50)
        assert "header" in refused(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "header",
    [
        b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,8]}}',
        b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}',
        b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}',
        b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}',
        b'{"w":{"dtype":"X","shape":[2],"data_offsets":[0,8]}}',
        b'{"w":3}',
        b"[1]",
        b"{" * 5000,
    ],
)
def test_a_header_that_does_not_fit_its_file_is_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    refused(tmp_path / "a.safetensors")


def test_a_packed_archive_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", pickle.dumps({}, 2), zipfile.ZIP_DEFLATED, r0=bytes(50_000_000))
    assert path.stat().st_size < 100_000
    assert "unpack" in refused(path)


def tensor_pickle(shape: tuple[int, ...], strides: tuple[int, ...], count: int, offset: int = 0) -> bytes:
    """A description of one tensor, as `torch.save` writes it."""
    out = io.BytesIO()
    out.write(b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage")
    out.write(b"ctorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu")
    for part in (count,):
        out.write(pickle.dumps(part, 2)[2:-1])
    out.write(b"tQ")
    for value in (offset, shape, strides, False):
        out.write(pickle.dumps(value, 2)[2:-1])
    out.write(b"ccollections\nOrderedDict\n)RtRs.")
    return out.getvalue()


def test_the_hand_made_description_is_one_that_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", tensor_pickle((2, 2), (2, 1), 4), r0=struct.pack("<4f", 1, 2, 3, 4))
    assert checkpoints.read(path).entries["w"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((2, 2), (2, 1), 1), ((5,), (1,), 0), ((2,), (-1,), 3), ((2**40,), (0,), 0), ((2, 2), (2,), 0), ((-1,), (1,), 0)],
)
def test_a_tensor_that_reaches_beyond_its_values_is_refused(
    tmp_path: Path, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    refused(archive(tmp_path / "a.pt", tensor_pickle(shape, strides, 4, offset), r0=bytes(16)))


@pytest.mark.parametrize(
    "description",
    [
        b"\x80\x02]" + b"\x8a\xff" + b"\x01" * 10 + b".",  # cut inside a number
        b"\x80\x02]r\xff\xff\xff\x7f.",  # a memo place of two thousand million
        b"\x80\x02}(K\x01u.",  # a key without a value
        b"\x80\x02a.",  # an item for nothing
        b"\x80\x02}",  # no end
        b"\x80\x02h\x05.",  # a memory that was never written
        b"\x80\x02(]]tR.",  # a list is called
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02]q\x00h\x00a.",  # a list inside itself
    ],
)
def test_a_description_that_makes_no_sense_is_refused(tmp_path: Path, description: bytes) -> None:
    refused(archive(tmp_path / "a.pt", description))


def test_containers_that_unfold_without_end_are_refused(tmp_path: Path) -> None:
    layers = b"\x80\x02]q\x00" + b"".join(b"](" + b"h%c" % n * 10 + b"eq%c" % (n + 1) for n in range(40))
    path = archive(tmp_path / "a.pt", layers + b"\x85" * 0 + b"h\x28" + b"0" * 41 + b".")
    refused(path)


@pytest.mark.parametrize(
    "key",
    [
        b")" + b"\x85" * 200_000,  # tuples in tuples: their hash breaks the interpreter
        b"(" + b"]" * 2 + b"t",  # lists cannot be hashed
        b"\x8a\x20" + b"\x7f" * 32,  # numbers can be made to share a hash
    ],
)
def test_keys_that_would_hang_or_break_the_interpreter_are_refused(tmp_path: Path, key: bytes) -> None:
    refused(archive(tmp_path / "a.pt", b"\x80\x02}" + key + b"K\x01s."))


@pytest.mark.parametrize(
    "description",
    [
        b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.",  # objects
        b"\x80\x02cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\nX\x02\x00\x00\x00f8\x85RU\x02abtR.",  # cut off
        b"\x80\x02cnumpy.core.multiarray\nscalar\n(X\x02\x00\x00\x00f8U\x08abcdefghtR.",  # no dtype
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",  # another codec
    ],
)
def test_numpy_values_that_are_none_are_refused(tmp_path: Path, description: bytes) -> None:
    refused(archive(tmp_path / "a.pt", description))


def test_the_format_before_zip_files_is_refused_with_what_to_do(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert "save it again" in refused(tmp_path / "a.pt")


def test_a_wrong_checksum_of_a_mindspore_checkpoint_is_seen(tmp_path: Path) -> None:
    data = (DATA / "mindspore-2.10.ckpt").read_bytes()
    (tmp_path / "a.ckpt").write_bytes(data + b"crc_num" + (12345).to_bytes(10, "big"))
    assert "checksum" in refused(tmp_path / "a.ckpt")


def test_damage_anywhere_in_a_mindspore_checkpoint_never_raises_anything_else(tmp_path: Path) -> None:
    data = (DATA / "mindspore-2.10.ckpt").read_bytes()
    for place in range(0, len(data), 37):
        (tmp_path / "a.ckpt").write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            for entry in checkpoints.read(tmp_path / "a.ckpt").entries.values():
                entry.stats()
        except CheckpointError:
            pass
