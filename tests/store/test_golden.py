"""Runs of every format version that ever was are read exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.runs import open_run
from tensight.store import FORMAT_VERSION, Reader
from tensight.testing.store_suite import same
from tests.store.golden import make as golden

VERSIONS = sorted(path.name for path in golden.HERE.glob("v*"))


def test_every_format_version_has_a_golden_run() -> None:
    assert [f"v{version}" for version in range(1, FORMAT_VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_run_is_read_exactly(version: str) -> None:
    reader = Reader(golden.HERE / version, 0)
    reader.verify()
    assert reader.info == golden.INFO
    assert reader.networks == {"model": golden.NETWORK}
    assert list(reader.parts) == [golden.PART]
    assert reader.tensors == golden.TENSORS
    assert reader.watchpoints == {1: golden.WATCHPOINT}
    assert same(list(reader.findings), golden.FINDINGS)
    assert list(reader.replays) == [golden.REPLAY]
    assert reader.coverage == golden.COVERAGE
    assert reader.crash == golden.CRASH
    assert reader.end == golden.END
    assert list(reader.steps.numbers) == list(range(golden.STEPS))
    whole = [step for step in reader.steps.numbers if not reader.steps.thinned(step)]
    assert 30 < len(whole) < golden.STEPS  # the run has both whole and thinned steps
    for step in whole:
        assert same(reader.steps.at(step), golden.step(step))
    assert reader.steps.with_hits() == [30, 250]
    assert sorted(reader.kept) == [250]
    for id, array in golden.KEPT.items():
        found = reader.tensor(250, id)
        assert found is not None
        assert found.dtype == "bfloat16"
        assert found.array.tobytes() == array.tobytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rank_that_was_killed_is_read_too(version: str) -> None:
    reader = Reader(golden.HERE / version, 1)
    assert reader.end is None
    assert same(list(reader.steps), [golden.step(0)])
    assert sorted(open_run(golden.HERE / version).readers) == [0, 1]


def test_what_is_written_today_is_the_golden_format(tmp_path: Path) -> None:
    golden.make(tmp_path / "run")
    for rank in (0, 1):
        then = (golden.HERE / f"v{FORMAT_VERSION}" / f"rank-{rank}" / "000000.log").read_bytes()
        now = (tmp_path / "run" / f"rank-{rank}" / "000000.log").read_bytes()
        assert _frames(now) == _frames(then)


def _frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, sequence and payload of every frame but the header, which names the machine."""
    from tensight.store.frame import PREAMBLE, Frame, FrameKind, scan

    frames = [frame for frame in scan(data[PREAMBLE.size :], PREAMBLE.size) if isinstance(frame, Frame)]
    places = (FrameKind.HEADER, FrameKind.INDEX, FrameKind.FOOTER)  # the header names the machine and shifts the rest
    return [(frame.kind, frame.sequence, bytes(frame.payload)) for frame in frames if frame.kind not in places]
