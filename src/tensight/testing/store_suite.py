"""What every store must do, as a class of tests.

A store, ours or a stranger's, subclasses `StoreSuite` and says how its writer and reader are made:

    class TestRunDirectory(StoreSuite):
        def writer(self, folder, info, **options):
            return Writer(folder, info, **options)

        def reader(self, folder, rank=0):
            return Reader(folder, rank)
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from tensight.records import (
    Change,
    Coverage,
    Event,
    Evidence,
    Finding,
    Gap,
    Hit,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
    Watchpoint,
    Where,
    Within,
)

HOSTILE = '<script>alert("1")</script> \x1b[31m \x00 \u202e é\U0001f600'


def run_info(rank: int = 0, ranks: int = 1) -> RunInfo:
    """A run of this process."""
    return RunInfo(
        "sample-1", ("train.py", "--lr", "0.1"), 1.5, "torch", "2.13.0", pid=os.getpid(), rank=rank, ranks=ranks
    )


def sample_hit(step: int, tensor: int = 0, **changes: Any) -> Hit:
    """A hit with every field set."""
    fields: dict[str, Any] = {
        "condition": "TO",
        "kind": "output",
        "node": HOSTILE,
        "slot": "output.0",
        "order": 3,
        "network": "model",
        "actual": {"nan": 12.0, "max": math.inf},
        "threshold": {"max": -0.0},
        "note": HOSTILE,
        "op": "aten.sqrt",
        "source": Source("train.py", 31, "x = y", "main"),
        **changes,
    }
    return Hit(step=step, watchpoint=1, name="overflow", tensor=tensor, **fields)


def sample_finding(since_step: int = 3, fault: str = "dead_relu", **changes: Any) -> Finding:
    """A finding with every field set."""
    where = Where("fc", "aten.relu", None, "train.py", 9, HOSTILE, "model")
    fields: dict[str, Any] = {
        "evidence": (Evidence("share of zeros", 1.0, since_step), Evidence("worst", math.nan)),
        "fix": ("lower the rate",),
        "then": ("fc2",),
        "since": "forward",
        "confirm": ("look",),
        "replay": "exact",
        **changes,
    }
    return Finding(fault, "gradient-flow", HOSTILE, 0.9, since_step, where, "because", **fields)


def sample_observations() -> tuple[Observation, ...]:
    """Observations with every kind of value a statistic may have."""
    return (
        Observation(0, 0, Stats(4, zero=1, positive=2, negative=1, min=-1.0, max=2.0, mean=0.5, abs_mean=1.0)),
        Observation(1, 1, Stats(3, min=-(2**63), max=2**64 - 1, mean=0.0), "backward"),
        Observation(2, 2, Stats(2, min=-0.0, max=5e-324, mean=1.7976931348623157e308, std=0.0, l2=0.0), "update"),
        Observation(3, 3, Stats(9, nan=1, pos_inf=2, neg_inf=3, mean=math.nan, std=math.inf), "evaluation", 2, (3, 3)),
        Observation(4, 4, Stats(5, within=(Within(-math.inf, 0.0, 3), Within(0.0, 1.0, 2)))),
        Observation(5, 5, Stats(5, change=Change(5, 1e-3, 1e-2, 0.5, 4, 1, 1e-4, 0.0))),
        Observation(6, 6, Stats(0), shape=(), error="no_value"),
    )


def sample_step(step: int, hits: tuple[Hit, ...] = (), **changes: Any) -> StepRecord:
    """A step with every field set."""
    fields: dict[str, Any] = {
        "watching": 0.001,
        "loss": 1.0 / (step + 1),
        "losses": (1.0, math.nan),
        "micro": 2,
        "scalars": {"lr": 0.1, "scale": math.inf, HOSTILE: -0.0},
        "events": (
            Event("optimizer_step", 5, "Adam", {"lr": 0.1, "skipped": False, "note": None}, Source("train.py", 12)),
        ),
        "observations": sample_observations(),
        **changes,
    }
    return StepRecord(step, 100.0 + step, 0.25, hits=hits, **fields)


def same(one: object, other: object) -> bool:
    """Whether two records are equal to the last bit: NaN equals NaN, and -0.0 is not 0.0."""
    return repr(one) == repr(other)


class StoreSuite(ABC):
    """Behaviour that writer and reader of a store must have together."""

    @abstractmethod
    def writer(self, folder: Path, info: RunInfo, **options: Any) -> Any:
        """A writer for one rank of a run."""

    @abstractmethod
    def reader(self, folder: Path, rank: int = 0) -> Any:
        """A reader for one rank of a run."""

    def test_a_new_run_can_be_read_before_anything_is_written(self, tmp_path: Path) -> None:
        self.writer(tmp_path / "run", run_info())
        reader = self.reader(tmp_path / "run")
        assert reader.info == run_info()
        assert len(reader.steps) == 0
        assert reader.end is None

    def test_a_step_comes_back_to_the_last_bit(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        record = sample_step(7, hits=(sample_hit(7), sample_hit(7, error="no_prev")))
        writer.step(record)
        found = self.reader(tmp_path / "run").steps.at(7)
        assert same(found, record)

    def test_every_definition_comes_back(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        network = Network(
            "model",
            "Net",
            (Module("", "Net"), Module("fc", "Linear", source=Source("train.py", 3), settings={"bias": True})),
            (Parameter("fc.weight", (2, 3), "float32", module="fc", optimizer="Adam"),),
        )
        part = Part("optimizer", "Adam", "torch.optim.Adam", {"lr": 0.1}, parameters=("model:fc.weight",))
        info = TensorInfo(0, "weight", HOSTILE, "weight", "model", shape=(2, 3), dtype="bfloat16")
        watchpoint = Watchpoint(1, "TL", {"max_gt": math.inf}, "gradient:*", "large", every=3, action="pause")
        replay = Replay(3, "exact", "fork at the hit", operator="aten.sqrt", facts={"zeros": 3})
        coverage = Coverage(("model",), ("Adam",), tensors=5, watched=4, gaps=(Gap("scaler", "none", "add one"),))
        crash = {"type": "ValueError", "message": HOSTILE, "line": 3}
        end = RunEnd("failed", 9.5, 1, 4, 1.03, ("something",), "thinned")
        writer.network(network)
        writer.part(part)
        writer.tensor(info)
        writer.watchpoint(watchpoint)
        writer.watchpoint(Watchpoint(2, "TO"))
        writer.watchpoint_removed(2)
        writer.findings([sample_finding()])
        writer.replay(replay)
        writer.coverage(coverage)
        writer.crash(crash)
        writer.end(end)
        writer.close()
        reader = self.reader(tmp_path / "run")
        assert reader.networks == {"model": network}
        assert list(reader.parts) == [part]
        assert reader.tensors == {0: info}
        assert reader.watchpoints == {1: watchpoint}
        assert same(list(reader.findings), [sample_finding()])
        assert list(reader.replays) == [replay]
        assert reader.coverage == coverage
        assert reader.crash == crash
        assert reader.end == end

    def test_a_later_list_of_findings_replaces_the_earlier(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.findings([sample_finding(1), sample_finding(2, "lr_too_high")])
        writer.findings([sample_finding(5)])
        assert same(list(self.reader(tmp_path / "run").findings), [sample_finding(5)])

    def test_a_part_that_is_sent_again_replaces_the_earlier(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.part(Part("optimizer", "Adam", "Adam", {"lr": 0.1}))
        writer.part(Part("scheduler", "Adam", "Step"))
        writer.part(Part("optimizer", "Adam", "Adam", {"lr": 0.2}))
        parts = {(part.kind, part.name): part.settings for part in self.reader(tmp_path / "run").parts}
        assert parts == {("optimizer", "Adam"): {"lr": 0.2}, ("scheduler", "Adam"): {}}

    def test_a_reader_takes_in_what_is_written_later(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        reader = self.reader(tmp_path / "run")
        for step in range(20):
            writer.tensor(TensorInfo(step, "loss", "", "loss"))
            writer.step(sample_step(step))
            assert reader.refresh()
            assert same(reader.steps[-1], sample_step(step))
            assert len(reader.tensors) == step + 1
        assert not reader.refresh()
        assert [record.step for record in reader.steps] == list(range(20))

    def test_news_name_exactly_what_came_since(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        reader = self.reader(tmp_path / "run")
        start = reader.since(0).sequence
        writer.step(sample_step(0))
        writer.findings([sample_finding()])
        reader.refresh()
        news = reader.since(start)
        assert news.steps == (0,)
        assert news.changed == ("findings",)
        writer.step(sample_step(1))
        reader.refresh()
        assert reader.since(news.sequence).steps == (1,)
        assert reader.since(news.sequence).changed == ()
        # a reader that comes later knows the same numbers
        assert self.reader(tmp_path / "run").since(start).steps == (0, 1)

    def test_nothing_is_forgotten_when_segments_change(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info(), segment_bytes=4096)
        reader = self.reader(tmp_path / "run")
        writer.network(Network("model", "Net"))
        for step in range(100):
            writer.tensor(TensorInfo(step, "loss", "", "loss"))
            writer.step(sample_step(step))
            reader.refresh()
        for found in (reader, self.reader(tmp_path / "run")):
            assert [record.step for record in found.steps] == list(range(100))
            assert same(found.steps.at(50), sample_step(50))
            assert sorted(found.tensors) == list(range(100))
            assert list(found.networks) == ["model"]

    def test_kept_tensors_come_back_with_their_own_dtype(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.tensor(TensorInfo(0, "weight", "fc", "weight", dtype="bfloat16"))
        arrays: dict[int, Any] = {
            0: np.array([1.5, math.nan, -0.0], dtype=np.float32),
            1: np.arange(6, dtype=np.int64).reshape(2, 3).T,
            2: np.array(2.5),
            3: np.array([1 + 2j], dtype=np.complex64),
            4: np.zeros((0, 3), dtype=np.float16),
            5: np.array([True, False]),
        }
        writer.tensors(3, arrays)
        reader = self.reader(tmp_path / "run")
        assert reader.kept == {3: (0, 1, 2, 3, 4, 5)}
        for id, array in arrays.items():
            found = reader.tensor(3, id).array
            assert found.dtype == array.dtype
            assert found.shape == array.shape
            assert found.tobytes() == array.tobytes()
        assert reader.tensor(3, 0).dtype == "bfloat16"
        assert reader.tensor(3, 1).dtype == "int64"
        assert reader.tensor(3, 99) is None
        assert reader.tensor(4, 0) is None

    def test_tensors_kept_later_in_a_step_join_the_earlier(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.tensors(3, {0: np.zeros(2)})
        writer.tensors(3, {1: np.ones(2)})
        reader = self.reader(tmp_path / "run")
        assert reader.kept == {3: (0, 1)}
        assert reader.tensor(3, 0).array.sum() == 0
        assert reader.tensor(3, 1).array.sum() == 2

    def test_ranks_do_not_mix(self, tmp_path: Path) -> None:
        writers = [self.writer(tmp_path / "run", run_info(rank, 2)) for rank in range(2)]
        for rank, writer in enumerate(writers):
            writer.step(sample_step(rank))
        for rank in range(2):
            reader = self.reader(tmp_path / "run", rank)
            assert reader.info.rank == rank
            assert [record.step for record in reader.steps] == [rank]

    def test_what_cannot_be_encoded_as_it_is_is_mended_not_lost(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        values = {"bad text \udcff": 1, "huge": 2**70, "numpy": np.float32(0.5)}
        writer.step(sample_step(0, events=(Event("batch", values=values),)))  # type: ignore[arg-type]
        writer.step(sample_step(1))
        reader = self.reader(tmp_path / "run")
        assert [record.step for record in reader.steps] == [0, 1]
        found = reader.steps.at(0).events[0].values
        assert found == {"bad text \\udcff": 1, "huge": float(2**70), "numpy": 0.5}
        assert writer.lost == ()

    def test_trouble_is_reported_and_never_raised(self, tmp_path: Path) -> None:
        troubles: list[tuple[str, BaseException]] = []
        writer = self.writer(
            tmp_path / "run", run_info(), on_trouble=lambda where, error: troubles.append((where, error))
        )
        writer.step(sample_step(0, observations=(object(),)))
        writer.tensors(0, {0: np.array([object()])})
        writer.step(sample_step(1))
        assert len(troubles) == 2
        assert len(writer.lost) == 2
        assert [record.step for record in self.reader(tmp_path / "run").steps] == [1]

    def test_a_listener_that_raises_does_no_harm(self, tmp_path: Path) -> None:
        def refuse(where: str, error: BaseException) -> None:
            raise RuntimeError("no")

        writer = self.writer(tmp_path / "run", run_info(), on_trouble=refuse)
        writer.step(sample_step(0, observations=(object(),)))
        writer.step(sample_step(1))
        assert [record.step for record in self.reader(tmp_path / "run").steps] == [1]

    def test_nothing_is_written_after_close(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.step(sample_step(0))
        writer.close()
        writer.close()
        writer.step(sample_step(1))
        writer.findings([sample_finding()])
        reader = self.reader(tmp_path / "run")
        assert len(reader.steps) == 1
        assert list(reader.findings) == []

    def test_what_was_lost_stands_in_the_end(self, tmp_path: Path) -> None:
        writer = self.writer(tmp_path / "run", run_info())
        writer.step(sample_step(0, observations=(object(),)))
        writer.end(RunEnd("finished", 2.0, 0, 1, lost=("a probe",)))
        end = self.reader(tmp_path / "run").end
        assert end.lost[0] == "a probe"
        assert end.lost[1].startswith("step 0 could not be written")
