"""The writer in bad times: full disks, removed folders, forks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tensight.errors import NameNotFound, RunError
from tensight.records import RunEnd, TensorInfo
from tensight.store import Reader, Writer, codec
from tensight.store.appender import Appender
from tensight.store.frame import PREAMBLE, Gap, scan
from tensight.store.journal import PRINTS, Journal, read
from tensight.store.state import State
from tensight.testing.store_suite import run_info, same, sample_finding, sample_hit, sample_step

FULL = """
import json, resource, sys
from pathlib import Path
import numpy as np
from tensight.records import RunEnd, TensorInfo
from tensight.store import Writer
from tensight.testing.store_suite import run_info, sample_step

troubles = []
writer = Writer(Path(sys.argv[1]), run_info(), on_trouble=lambda where, error: troubles.append(where))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
writer.step(sample_step(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
writer.tensor(TensorInfo(5, "loss", "", "loss"))
for step in range(1, 201):
    writer.step(sample_step(step))
writer.tensors(3, {5: np.zeros(1000)})
tried = len(troubles)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for step in range(201, 301):
    writer.step(sample_step(step))
writer.end(RunEnd("finished", 1.0, 0, 301))
writer.close()
print(json.dumps({"lost": writer.lost, "tried": tried, "troubles": troubles}))
"""

SMALL_FILES = """
import resource, sys
from pathlib import Path
from tensight.store import Writer
from tensight.testing.store_suite import run_info, sample_step

writer = Writer(Path(sys.argv[1]), run_info())
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
for step in range(300):
    writer.step(sample_step(step))
assert writer.lost == (), writer.lost
"""

FORK = """
import os, sys
from pathlib import Path
import numpy as np
from tensight.records import RunEnd, TensorInfo
from tensight.store import Writer
from tensight.testing.store_suite import run_info, sample_finding, sample_step

writer = Writer(Path(sys.argv[1]), run_info())
writer.step(sample_step(0))
child = os.fork()
if child == 0:
    writer.tensor(TensorInfo(9, "loss", "", "loss"))
    writer.step(sample_step(1))
    writer.findings([sample_finding()])
    writer.tensors(1, {0: np.zeros(3)})
    writer.end(RunEnd("failed", 1.0))
    writer.close()
    os._exit(0)
os.waitpid(child, 0)
writer.step(sample_step(2))
"""


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_costs_the_steps_of_that_time_and_says_so(tmp_path: Path) -> None:
    said = json.loads(run(FULL, tmp_path / "run"))
    reader = Reader(tmp_path / "run")
    numbers = list(reader.steps.numbers)
    assert numbers[0] == 0
    assert numbers[-1] == 300
    missing = sorted(set(range(301)) - set(numbers))
    assert missing[0] == 1
    assert missing == list(range(1, missing[-1] + 1))
    assert missing[-1] < 201 + 64  # writing is tried again after at most 64 steps
    assert 0 < said["tried"] < 40  # while it fails, only few are tried
    words = " ".join(said["lost"])
    assert f"{len(missing)} steps (1 to {missing[-1]}) could not be written: [Errno 27]" in words
    assert "tensors of step 3 could not be written" in words
    assert reader.end is not None
    assert list(reader.end.lost) == said["lost"]
    assert 5 in reader.tensors  # said while nothing could be written, and there all the same
    reader.verify()


def test_a_limit_on_the_size_of_files_costs_nothing(tmp_path: Path) -> None:
    run(SMALL_FILES, tmp_path / "run")
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers) == list(range(300))
    assert same(reader.steps.at(299), sample_step(299))
    assert not reader.damage
    for path in sorted((tmp_path / "run" / "rank-0").glob("*.log")):  # what was cut short is taken back
        *_, last = scan(path.read_bytes()[PREAMBLE.size :], PREAMBLE.size)
        assert last.offset + last.size == path.stat().st_size


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    run(FORK, tmp_path / "run")
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers) == [0, 2]
    assert not reader.findings
    assert reader.end is None
    assert not reader.kept
    assert not (tmp_path / "run" / "rank-0" / "tensors").exists()
    reader.verify()


def test_a_removed_folder_is_noticed_and_does_no_harm(tmp_path: Path) -> None:
    troubles: list[str] = []
    writer = Writer(tmp_path / "run", run_info(), on_trouble=lambda where, error: troubles.append(f"{where}: {error}"))
    writer.step(sample_step(0))
    shutil.rmtree(tmp_path / "run")
    for step in range(1, 300):
        writer.step(sample_step(step))
    writer.tensors(5, {0: np.zeros(3)})
    writer.findings([sample_finding()])
    writer.end(RunEnd("finished", 1.0))
    writer.close()
    assert troubles
    assert len(troubles) < 40
    assert "299 steps (1 to 299) could not be written" in " ".join(writer.lost)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_comes_back_is_written_again(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info())
    writer.step(sample_step(0))
    (tmp_path / "run").rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", tmp_path / "run")
    shutil.rmtree(tmp_path / "away")
    writer.step(sample_step(1))
    assert list(Reader(tmp_path / "run").steps.numbers) == [0, 1]


def test_a_folder_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot be written"):
        Writer(tmp_path / "file" / "run", run_info())


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    Writer(tmp_path / "run", run_info()).step(sample_step(0))
    with pytest.raises(RunError, match="already holds a recording"):
        Writer(tmp_path / "run", run_info())
    assert len(Reader(tmp_path / "run").steps) == 1


def test_a_tensor_that_another_thread_meets_while_others_are_written_is_in_every_later_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "run", run_info())
    late = threading.Thread(target=writer.tensor, args=(TensorInfo(2, "weight", "fc2", "weight"),))
    put = State.put_tensors

    def slow(state: State, infos: list[TensorInfo], sequence: int) -> None:
        put(state, infos, sequence)
        if not late.ident:
            late.start()
            late.join(0.5)  # long enough to come in between, if it may

    monkeypatch.setattr(State, "put_tensors", slow)
    writer.tensor(TensorInfo(1, "weight", "fc1", "weight"))
    writer.step(sample_step(0))
    late.join()
    writer.step(sample_step(1))
    writer._log.rotate()
    writer.close()
    assert set(Reader(tmp_path / "run").tensors) == {1, 2}


def test_half_a_record_is_no_part_of_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / PRINTS)
    journal.append("before")
    write, room = os.write, [5, 0]

    def full(handle: int, data: bytes) -> int:
        if not room:
            return write(handle, data)
        count = room.pop(0)
        if not count:
            raise OSError(28, "No space left on device")
        return write(handle, data[:count])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.append("lost")
    assert journal.append("after")
    journal.close()
    assert [record for _, record in read(tmp_path / PRINTS, str)] == ["before", "after"]
    assert not [found for found in scan((tmp_path / PRINTS).read_bytes(), 0) if isinstance(found, Gap)]


def test_a_reader_follows_a_writer_in_another_thread(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), segment_bytes=20_000, retention_bytes=100_000)
    reader = Reader(tmp_path / "run")

    def write() -> None:
        for step in range(400):
            writer.step(sample_step(step, hits=(sample_hit(step),) if step == 200 else ()))
        writer.end(RunEnd("finished", 1.0, 0, 400))

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[int] = set()
    sequence = 0
    while True:
        running = thread.is_alive()
        reader.refresh()
        news = reader.since(sequence)
        assert not seen & set(news.steps)
        seen.update(news.steps)
        sequence = news.sequence
        for step in news.steps[:5]:
            with contextlib.suppress(NameNotFound):  # dropped by the writer in the meantime
                assert reader.steps.at(step).step == step
        if not running:
            break
    thread.join()
    assert not reader.damage
    assert reader.end is not None
    assert max(seen) == 399
    assert list(reader.steps.numbers) == list(Reader(tmp_path / "run").steps.numbers)


def test_opening_a_long_run_decodes_no_observations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path / "run", run_info(), segment_bytes=100_000)
    record = sample_step(0)
    for step in range(3000):
        writer.step(sample_step(step, observations=record.observations, hits=(sample_hit(step),) if step == 7 else ()))
    read: list[int] = []
    heads = codec.decode_head

    def counted(payload: memoryview) -> object:
        read.append(len(payload))
        return heads(payload)

    monkeypatch.setattr(codec, "decode_head", counted)
    monkeypatch.setattr(codec, "decode_step", None)
    reader = Reader(tmp_path / "run")
    assert len(reader.steps) == 3000
    assert reader.steps.with_hits() == [7]
    assert len(read) < 300  # only the segment that is not closed is walked through


def test_old_kept_tensors_go_first_but_those_of_findings_stay(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), tensor_bytes=30_000)
    writer.tensor(TensorInfo(0, "weight", "fc", "weight"))
    writer.findings([sample_finding(since_step=0)])
    for step in range(10):
        writer.tensors(step, {0: np.full(1000, step, dtype=np.float64)})
    reader = Reader(tmp_path / "run")
    assert sorted(reader.kept) == [0, 8, 9]
    files = sorted(os.listdir(tmp_path / "run" / "rank-0" / "tensors"))
    assert files == ["step-0.safetensors", "step-8.safetensors", "step-9.safetensors"]
    found = reader.tensor(9, 0)
    assert found is not None
    assert found.array[0] == 9
    assert reader.tensor(5, 0) is None


def test_low_precision_arrays_are_kept_exactly(tmp_path: Path) -> None:
    import ml_dtypes

    writer = Writer(tmp_path / "run", run_info())
    values = np.array([1.5, -0.0, np.nan, np.inf], dtype=ml_dtypes.bfloat16)
    small = np.array([0.25, 2.0], dtype=ml_dtypes.float8_e4m3fn)
    writer.tensors(0, {0: values, 1: small})
    reader = Reader(tmp_path / "run")
    for id, array in ((0, values), (1, small)):
        found = reader.tensor(0, id)
        assert found is not None
        assert found.dtype == array.dtype.name
        assert found.array.astype(array.dtype).tobytes() == array.tobytes()


def test_a_disk_that_is_full_when_a_segment_ends_is_not_tried_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles: list[str] = []
    writer = Writer(
        tmp_path / "run", run_info(), segment_bytes=8192, on_trouble=lambda where, error: troubles.append(where)
    )

    def full(self: Appender) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Appender, "_open", full)
    for step in range(500):
        writer.step(sample_step(step))
    assert 0 < len(troubles) < 40
    monkeypatch.undo()
    for step in range(500, 600):
        writer.step(sample_step(step))
    numbers = Reader(tmp_path / "run").steps.numbers
    assert numbers[0] == 0
    assert numbers[-1] == 599
