"""What stays of older steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.records import Observation, Stats, StepRecord
from tensight.store import Reader, Writer
from tensight.store.thinning import AROUND, EVERY, whole_steps
from tensight.testing.store_suite import run_info, same, sample_finding, sample_hit, sample_step

STEPS = 1200


def observed(step: int) -> tuple[Observation, ...]:
    """40 tensors that swing, each with its own period, and one that has a peak and a NaN in the middle of nowhere."""
    seen = []
    for tensor in range(40):
        size = 1.0 + (step * (tensor + 3) % 97) / 97
        seen.append(Observation(tensor, tensor, Stats(8, min=-size, max=size, abs_mean=size / 2)))
    peak = 1e6 if step == 333 else 1.0
    seen.append(Observation(40, 40, Stats(8, nan=int(step == 377), min=-1.0, max=peak, abs_mean=0.5)))
    return tuple(seen)


def record(step: int, **changes: Any) -> StepRecord:
    return sample_step(step, observations=observed(step), **changes)


def written(folder: Path, *, retention_bytes: int = 2_000_000, hit_steps: frozenset[int] = frozenset()) -> Reader:
    writer = Writer(folder, run_info(), retention_bytes=retention_bytes, segment_bytes=100_000)
    writer.findings([sample_finding(since_step=222)])
    for step in range(STEPS):
        writer.step(record(step, hits=(sample_hit(step),) if step in hit_steps else ()))
    assert writer.lost == ()
    return Reader(folder)


def test_thinning_keeps_heads_extremes_and_surroundings_of_hits_and_findings(tmp_path: Path) -> None:
    reader = written(tmp_path / "run", hit_steps=frozenset((111, *range(400, 500))))
    reader.verify()
    assert list(reader.steps.numbers) == list(range(STEPS))
    thinned = [step for step in reader.steps.numbers if reader.steps.thinned(step)]
    assert len(thinned) > STEPS / 3
    for step in thinned[::7]:  # the head of every step is as it was, but for the events
        found = reader.steps.at(step)
        assert same(found.scalars, record(step).scalars)
        assert found.loss == record(step).loss
        assert found.events == ()
        assert all(observation in record(step).observations for observation in found.observations)
    for centre in (111, 222, 400):  # a hit, a finding, the first of many hits
        for step in range(centre - AROUND, centre + AROUND + 1):
            assert same(reader.steps.at(step).observations, record(step).observations)
    assert len(reader.steps.at(450).hits) == 1  # hits stay also where their step was thinned
    assert same(reader.steps.at(EVERY), record(EVERY))
    assert max(o.stats.max or 0 for o in reader.steps.at(333).observations if o.tensor == 40) == 1e6
    assert sum(o.stats.nan for o in reader.steps.at(377).observations) == 1
    for tensor in range(40):
        largest = max((o.stats.max or 0) for s in reader.steps for o in s.observations if o.tensor == tensor)
        assert largest == max((observed(s)[tensor].stats.max or 0) for s in range(97))


def test_a_run_stays_within_its_bytes_and_keeps_its_beginning(tmp_path: Path) -> None:
    reader = written(tmp_path / "run", retention_bytes=600_000)
    total = sum(path.stat().st_size for path in (tmp_path / "run" / "rank-0").glob("*.log"))
    assert total < 900_000
    numbers = reader.steps.numbers
    assert numbers[0] == 0
    assert same(reader.steps.at(0), record(0))
    assert list(numbers[-50:]) == list(range(STEPS - 50, STEPS))
    assert len(numbers) < STEPS


def test_no_stray_file_is_left(tmp_path: Path) -> None:
    written(tmp_path / "run")
    names = [path.name for path in (tmp_path / "run" / "rank-0").iterdir()]
    assert all(name.endswith((".log", ".log.new")) for name in names)
    assert sum(name.endswith(".new") for name in names) <= 1  # the one that is being thinned


def test_a_writer_that_closes_leaves_no_half_thinned_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), retention_bytes=1_000_000, segment_bytes=100_000)
    for step in range(STEPS):
        writer.step(record(step))
    writer.close()
    names = [path.name for path in (tmp_path / "run" / "rank-0").iterdir()]
    assert all(name.endswith(".log") for name in names)
    Reader(tmp_path / "run").verify()


def test_a_reader_that_was_open_sees_thinned_steps_too(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info(), retention_bytes=1_000_000, segment_bytes=100_000)
    reader = Reader(tmp_path / "run")
    for step in range(STEPS):
        writer.step(record(step))
        if step == 60:
            reader.refresh()
    assert reader.steps.at(37).loss == record(37).loss  # its segment was rewritten since
    reader.refresh()
    assert reader.steps.thinned(37)
    assert list(reader.steps.numbers) == list(Reader(tmp_path / "run").steps.numbers)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    hits=st.dictionaries(st.integers(0, 199), st.sets(st.integers(0, 2), min_size=1), max_size=30),
    important=st.sets(st.integers(0, 199), max_size=3),
)
def test_every_onset_of_a_hit_keeps_its_surroundings(hits: dict[int, set[int]], important: set[int]) -> None:
    heads = [
        StepRecord(step, 0.0, 0.0, hits=tuple(sample_hit(step, tensor) for tensor in sorted(hits.get(step, ()))))
        for step in range(200)
    ]
    keep = whole_steps(heads, important)
    onsets = {step for step in hits if hits[step] - hits.get(step - 1, set())}
    wanted = {near for centre in onsets | important for near in range(centre - AROUND, centre + AROUND + 1)}
    assert wanted & set(range(200)) <= keep
    expected = wanted | set(range(0, 200, EVERY)) | set(range(AROUND)) | set(range(200 - AROUND, 200))
    assert keep & set(range(200)) == expected & set(range(200))


def test_an_entry_that_could_not_be_judged_keeps_nothing() -> None:
    heads = [StepRecord(step, 0.0, 0.0, hits=(sample_hit(step, step, error="no_prev"),)) for step in range(100)]
    assert 20 not in whole_steps(heads, ())
