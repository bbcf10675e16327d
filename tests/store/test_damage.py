"""Torn tails are cut cleanly; damage in the middle is named and costs nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.errors import DamagedError, FormatError
from tensight.records import StepRecord, TensorInfo
from tensight.store import FORMAT_VERSION, Reader, Writer, codec
from tensight.store.frame import PREAMBLE, FrameKind, pack, scan
from tensight.testing.store_suite import run_info, same, sample_step


def small(step: int) -> StepRecord:
    return sample_step(step, events=(), observations=sample_step(0).observations[:2])


def recorded(folder: Path, steps: int = 4, *, close: bool = False) -> tuple[Path, list[int]]:
    """A run of one segment; returns its file and where the frame of each step ends."""
    writer = Writer(folder, run_info())
    writer.tensor(TensorInfo(0, "loss", "", "loss"))
    for step in range(steps):
        writer.step(small(step))
    if close:
        writer.close()
    path = folder / "rank-0" / "000000.log"
    data = path.read_bytes()[PREAMBLE.size :]
    ends = [frame.offset + frame.size for frame in scan(data, PREAMBLE.size) if frame.kind == FrameKind.STEP]  # type: ignore[union-attr]
    return path, ends


def header_end(path: Path) -> int:
    first = next(iter(scan(path.read_bytes()[PREAMBLE.size :], PREAMBLE.size)))
    return first.offset + first.size


def test_a_file_cut_at_any_byte_shows_exactly_the_steps_that_are_whole(tmp_path: Path) -> None:
    path, ends = recorded(tmp_path / "run")
    whole = path.read_bytes()
    beginning = header_end(path)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        if cut < beginning:  # a segment appears with its header inside, so only damage can do this
            with pytest.raises((FormatError, DamagedError)):
                Reader(tmp_path / "run")
            continue
        reader = Reader(tmp_path / "run")
        assert list(reader.steps.numbers) == list(range(sum(end <= cut for end in ends)))
        assert not reader.damage


def test_a_reader_that_saw_a_torn_tail_goes_on_when_it_is_completed(tmp_path: Path) -> None:
    path, ends = recorded(tmp_path / "run")
    whole = path.read_bytes()
    path.write_bytes(whole[: ends[1] + 7])
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers) == [0, 1]
    with path.open("r+b") as file:  # the same file, as a writer completes it
        file.seek(ends[1] + 7)
        file.write(whole[ends[1] + 7 :])
    assert reader.refresh()
    assert list(reader.steps.numbers) == [0, 1, 2, 3]
    assert not reader.damage


@settings(deadline=None, max_examples=150, derandomize=True)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_never_changes_a_step_and_spares_all_before_it(
    tmp_path_factory: pytest.TempPathFactory, place: float, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path, ends = recorded(folder / "run")
    data = bytearray(path.read_bytes())
    first = header_end(path)
    offset = first + int(place * (len(data) - first))
    data[offset] ^= flip
    path.write_bytes(bytes(data))
    reader = Reader(folder / "run")
    before = sum(end <= offset for end in ends)
    assert list(reader.steps.numbers[:before]) == list(range(before))
    for step in reader.steps.numbers:
        assert same(reader.steps.at(step), small(step))
    if offset < ends[-2]:
        assert len(reader.damage) == 1
        assert str(path) in str(reader.damage[0])
        assert list(reader.steps.numbers)[-1] == 3  # what stands behind the damage is found again


def test_damage_names_file_and_offset_and_is_raised_by_verify(tmp_path: Path) -> None:
    path, ends = recorded(tmp_path / "run", close=True)
    data = bytearray(path.read_bytes())
    data[ends[0] + 30] ^= 1
    path.write_bytes(bytes(data))
    reader = Reader(tmp_path / "run")
    with pytest.raises(DamagedError, match=rf"000000\.log is damaged at byte {ends[0]}: .* can be read"):
        reader.verify()
    assert list(reader.steps.numbers) == [0, 2, 3]
    assert any("damaged at byte" in what for what in reader.lost)


def test_damage_in_an_indexed_segment_is_raised_by_the_step_alone(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), segment_bytes=4096)
    for step in range(30):
        writer.step(sample_step(step))
    path = tmp_path / "run" / "rank-0" / "000000.log"
    frames = [f for f in scan(path.read_bytes()[PREAMBLE.size :], PREAMBLE.size) if f.kind == FrameKind.STEP]  # type: ignore[union-attr]
    data = bytearray(path.read_bytes())
    data[frames[1].offset + 40] ^= 1
    path.write_bytes(bytes(data))
    reader = Reader(tmp_path / "run")
    assert len(reader.steps) == 30
    with pytest.raises(DamagedError, match=f"at byte {frames[1].offset}: the frame of step 1 fails its check"):
        reader.steps.at(1)
    assert same(reader.steps.at(0), sample_step(0))
    assert same(reader.steps.at(29), sample_step(29))


def test_a_damaged_index_costs_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), segment_bytes=4096)
    for step in range(30):
        writer.step(sample_step(step))
    path = tmp_path / "run" / "rank-0" / "000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert list(Reader(tmp_path / "run").steps.numbers) == list(range(30))


def test_a_damaged_last_header_leaves_the_earlier_segments_readable(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), segment_bytes=4096)
    for step in range(30):
        writer.step(sample_step(step))
    last = max((tmp_path / "run" / "rank-0").glob("*.log"))
    last.write_bytes(b"x" * 100)
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers[:10]) == list(range(10))
    assert reader.info == run_info()
    assert any(last.name in str(error) for error in reader.damage)


def test_a_newer_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path / "run")
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, FORMAT_VERSION + 1)
    path.write_bytes(bytes(data))
    with pytest.raises(FormatError, match=f"run format {FORMAT_VERSION + 1}, newer than .*: update tensight") as caught:
        Reader(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 200])
def test_a_file_that_is_no_segment_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / "000000.log").write_bytes(content)
    with pytest.raises((FormatError, DamagedError)):
        Reader(tmp_path)


def test_a_folder_without_a_recording_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no recording of rank 0"):
        Reader(tmp_path)


def test_a_frame_of_an_unknown_kind_is_passed_over(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path / "run")
    with path.open("ab") as file:
        file.write(pack(999, b"from the future", 50))
    reader = Reader(tmp_path / "run")
    assert len(reader.steps) == 4
    assert not reader.damage


def test_a_step_that_cannot_be_understood_is_named_as_damage(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path / "run")
    head, _ = codec.decode_head(codec.encode_step(small(9)))
    with path.open("ab") as file:  # a good frame whose rows have another form
        file.write(pack(FrameKind.STEP, codec.encode((head, codec.encode([[1, 2, 3]]), False)), 50))
        file.write(pack(FrameKind.STEP, b"\xff\xff", 51))
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers) == [0, 1, 2, 3, 9]
    with pytest.raises(DamagedError, match="step 9 cannot be understood"):
        reader.steps.at(9)
    assert "its record cannot be understood" in str(reader.damage[0])
    assert same(reader.steps.at(3), small(3))
