"""A recorded run, from Python."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tensight
from tensight.errors import FormatError, MissingExtra, NameNotFound
from tensight.records import Observation, RunInfo, Stats, StepRecord
from tensight.runs import Run, Runs, open_run
from tensight.store import Writer
from tensight.testing.store_suite import same, sample_step
from tests.runs.sample import STEPS, TENSORS, record_run, stats, step


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record_run(tmp_path / "run")
    return open_run(tmp_path / "run")


def test_tensight_open_is_the_same(run: Run) -> None:
    assert isinstance(tensight.open(run.path), Run)


def test_a_run_knows_how_it_ended(run: Run) -> None:
    assert run.ended == "finished"
    assert run.end is not None
    assert run.end.script_exit == 0
    assert run.step_count == STEPS
    assert list(run.lost) == ["something"]


def test_a_run_shows_what_was_recorded(run: Run) -> None:
    assert [network.name for network in run.networks] == ["model"]
    assert [part.name for part in run.parts] == ["Adam"]
    assert [point.name for point in run.watchpoints] == ["overflow"]
    assert run.tensors[3] == TENSORS[3]
    assert run.coverage is not None
    assert run.coverage.watched == 7
    assert [replay.status for replay in run.replays] == ["exact"]
    assert run.crash is None
    assert same(run.steps[-1], step(STEPS - 1))
    assert [head.loss for head in run.steps.heads(range(0, 4, 2))] == [1.0, 1.0]
    assert [finding.fault for finding in run.findings] == ["dead_relu", "lr_too_high"]


def test_hits_are_filtered_by_everything_they_have(run: Run) -> None:
    assert len(run.hits) == 3
    assert [hit.order for hit in run.hits] == [1, 3, 4]
    assert [hit.order for hit in run.hits.held] == [1, 4]
    assert [hit.order for hit in run.hits.where(condition="GE")] == [4]
    assert [hit.order for hit in run.hits.where(kind="weight")] == [3]
    assert [hit.order for hit in run.hits.where(node="encoder")] == [1]
    assert [hit.order for hit in run.hits.where(node="head.weight")] == [3, 4]
    assert [hit.order for hit in run.hits.where(node="h*", condition="TO")] == [3]
    assert len(run.hits.where(step=6)) == len(run.hits.where(step=range(5, 7))) == len(run.hits.where(step=[6])) == 3
    assert len(run.hits.where(step=5)) == 0
    assert len(run.hits.where(rank=1)) == 0
    assert len(run.hits.where(watchpoint="overflow")) == len(run.hits.where(watchpoint=1)) == 3
    assert len(run.hits.where(network="other")) == 0
    assert [hit.order for hit in run.hits.page(1, size=2)] == [4]
    assert len(run.hits.page(2, size=2)) == 0


def test_a_tensor_has_statistics_and_values_where_they_were_kept(run: Run) -> None:
    tensor = run.tensor("encoder.0", "output", step=6)
    assert tensor.info.id == 0
    assert tensor.stats == stats(60.0)
    assert tensor.kept
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert run.tensor("encoder.0", "output.1", step=6).info.id == 1
    gradient = run.tensor("head", "weight.grad", step=6)
    assert gradient.info.kind == "gradient"
    assert np.isnan(gradient.numpy()[1])
    assert run.tensor("head", "weight", step=6).info.kind == "weight"
    assert run.tensor("head.weight", "weight", kind="gradient").step == 6  # the last one that was kept
    assert run.tensor("head", "weight").step == STEPS - 1  # or else the last one that was seen
    assert run.tensor("head#1", "output").info.call == 1
    assert run.tensor("encoder.0", "output", kind="output_gradient").info.id == 6


def test_a_tensor_that_is_not_there_is_named_with_what_is(run: Run) -> None:
    with pytest.raises(NameNotFound, match=r"no tensor bias of head: it has output\.0, weight"):
        run.tensor("head", "bias")
    with pytest.raises(NameNotFound, match="nothing was seen of that node"):
        run.tensor("tail", "output")
    with pytest.raises(NameNotFound, match="were not kept: run again with --steps 3"):
        run.tensor("encoder.0", "output", step=3).numpy()
    with pytest.raises(NameNotFound, match=r"no step 99 .* steps from 0 to 9 are kept"):
        run.steps.at(99)
    assert run.tensor("encoder.0", "output", step=99).stats is None


def test_statistics_of_many_tensors_come_as_a_table(run: Run) -> None:
    table = run.nodes("encoder.*").outputs(step=range(2, 4)).stats()
    assert [(row.step, row.node, row.slot) for row in table] == [
        (2, "encoder.0", "output.0"),
        (2, "encoder.0", "output.1"),
        (2, "encoder.1", "output.0"),
        (3, "encoder.0", "output.0"),
        (3, "encoder.0", "output.1"),
        (3, "encoder.1", "output.0"),
    ]
    assert table.column("min") == [20.0, 21.0, 22.0, 30.0, 31.0, 32.0]
    assert run.nodes("encoder").names == ["encoder", "encoder.0", "encoder.1"]
    assert run.nodes("*").gradients(step=6).stats().column("nan") == [1]
    assert len(run.nodes().weights().stats()) == STEPS
    assert len(run.nodes().output_gradients(step=[1, 2, 99]).stats()) == 2
    assert len(run.nodes().inputs().stats()) == 0
    assert len(run.nodes("head").all(step=0).stats()) == 3


def test_a_table_becomes_a_data_frame(run: Run) -> None:
    frame = run.nodes("encoder.*").outputs(step=range(2, 4)).stats().to_pandas()
    assert list(frame.columns[:7]) == ["step", "rank", "network", "node", "slot", "kind", "micro"]
    assert frame["max"].tolist() == [21.0, 22.0, 23.0, 31.0, 32.0, 33.0]
    nothing = run.nodes("no.such.*").outputs(step=2).stats().to_pandas()
    assert (len(nothing), list(nothing.columns)) == (0, list(frame.columns))


def test_without_pandas_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tensight\[notebook\]'"):
        run.nodes().outputs(step=0).stats().to_pandas()


def test_conditions_are_judged_again_on_what_was_recorded(run: Run) -> None:
    overflow = tensight.TensorOverflow()
    assert [(hit.step, hit.kind, hit.node) for hit in run.check(overflow)] == [(6, "gradient", "head")]
    assert len(run.check(overflow, nodes="activation:*")) == 0
    assert len(run.check(overflow, step=range(7, 9))) == 0
    found = run.check("TL(max_gt=95) on weight:*")
    assert [(hit.step, hit.actual["max_gt"], hit.threshold["max_gt"]) for hit in found] == [
        (number, 10.0 * number + 4, 95.0) for number in range(STEPS) if 10.0 * number + 4 > 95
    ]
    both = run.check([overflow, "max > 95 on weight:*"])
    assert {hit.condition for hit in both} <= {"TO", "EXPR"}
    assert len(both) == 1 + len(found)


def test_judging_again_knows_the_steps_before_the_asked_one(run: Run) -> None:
    rising = "max > max(max, 3) on weight:*"
    asked = run.check(rising, step=8)
    assert [hit.step for hit in asked] == [hit.step for hit in run.check(rising) if hit.step == 8]


def test_ranks_are_one_run(tmp_path: Path) -> None:
    record_run(tmp_path / "run", 0, 2)
    run = open_run(tmp_path / "run")
    record_run(tmp_path / "run", 1, 2)
    assert run.refresh()
    assert sorted(run.readers) == [0, 1]
    assert [(hit.rank, hit.order) for hit in run.hits] == [(0, 1), (0, 3), (0, 4), (1, 1), (1, 3), (1, 4)]
    assert [finding.fault for finding in run.findings] == ["lr_too_high", "dead_relu"]  # once, though two ranks said it
    assert run.tensor("encoder.0", "output", step=3, rank=1).stats == stats(31.0)
    table = run.nodes("encoder.1").outputs(step=3).stats()
    assert [(row.rank, row.stats.min) for row in table] == [(0, 32.0), (1, 33.0)]
    assert list(run.lost) == ["rank 0: something", "rank 1: something"]
    with pytest.raises(NameNotFound, match="has no rank 7: it has 0, 1"):
        run.rank(7)


def test_news_come_by_rank(tmp_path: Path) -> None:
    writer = record_run(tmp_path / "run", end=False)
    run = open_run(tmp_path / "run")
    news = run.since({})
    assert news[0].steps == tuple(range(STEPS))
    assert not run.refresh()
    writer.step(step(STEPS))
    hits = len(run.hits)
    assert run.refresh()
    assert run.since({0: news[0].sequence})[0].steps == (STEPS,)
    assert len(run.hits) == hits


def test_a_run_without_an_end_is_running_while_its_process_is(tmp_path: Path) -> None:
    record_run(tmp_path / "run", end=False)
    assert open_run(tmp_path / "run").ended == "running"


def test_a_run_without_an_end_was_killed_when_its_process_is_gone(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from tensight.store import Writer;"
        "from tensight.testing.store_suite import run_info, sample_step;"
        "Writer(Path(sys.argv[1]), run_info()).step(sample_step(0)); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], check=True, timeout=240)
    run = open_run(tmp_path / "run")
    assert run.ended == "killed"
    assert run.step_count == 1


def test_a_process_number_that_was_given_away_again_counts_as_killed(tmp_path: Path) -> None:
    Writer(tmp_path / "run", RunInfo("x", (), 0.0, pid=os.getpid())).step(sample_step(0))
    reader = open_run(tmp_path / "run").rank(0)
    reader._known.process_started += 1
    assert open_run(tmp_path / "run").ended == "running"
    assert not reader.alive


def test_a_run_of_another_machine_is_running_while_it_is_written(tmp_path: Path) -> None:
    record_run(tmp_path / "run", end=False)
    reader = open_run(tmp_path / "run").rank(0)
    reader._known.host = "elsewhere"
    reader._known.info = RunInfo("x", (), 0.0, pid=2**22 + 1)
    log = tmp_path / "run" / "rank-0" / "000000.log"
    os.utime(log, (time.time() + 1000,) * 2)
    assert reader.alive
    os.utime(log, (0, 0))
    assert not reader.alive


def test_what_is_no_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NameNotFound, match="there is no run"):
        open_run(tmp_path / "nothing")
    with pytest.raises(FormatError, match="is not a run"):
        open_run(tmp_path)
    record_run(tmp_path / "one")
    with pytest.raises(FormatError, match="is a folder of runs, not a run: open one of one"):
        open_run(tmp_path)
    assert open_run(tmp_path / "one" / "rank-0").path == tmp_path / "one"
    assert open_run(tmp_path / "one" / "rank-0" / "000000.log").path == tmp_path / "one"


def test_runs_of_a_folder_are_listed_and_a_broken_one_hides_no_other(tmp_path: Path) -> None:
    record_run(tmp_path / "good")
    (tmp_path / "broken" / "rank-0").mkdir(parents=True)
    (tmp_path / "broken" / "rank-0" / "000000.log").write_bytes(b"no" * 50)
    (tmp_path / "other").mkdir()
    runs = Runs(tmp_path)
    assert sorted(runs) == ["broken", "good"]
    rows = {row.name: row for row in runs.summaries()}
    assert rows["good"].steps == STEPS
    assert rows["good"].ended == "finished"
    assert len(rows["good"].findings) == 1
    assert math.isnan(rows["good"].loss or 0)
    assert "damaged" in (rows["broken"].error or "")
    assert runs["good"] is runs["good"]
    with pytest.raises(NameNotFound, match="there is no run other"):
        runs["other"]
    assert list(Runs(tmp_path / "good")) == ["good"]
    assert list(Runs(tmp_path / "nowhere")) == []


def test_names_of_models_cannot_break_out_of_the_notebook_view(run: Run, tmp_path: Path) -> None:
    views = [
        run._repr_html_(),
        run.hits._repr_html_(),
        run.findings._repr_html_(),
        run.tensor("encoder.0", "output", step=6)._repr_html_(),
        run.nodes().all().stats()._repr_html_(),
        Runs(tmp_path)._repr_html_(),
    ]
    for view in views:
        assert "<script" not in view
        assert view
    assert "&lt;script&gt;" in views[1]
    assert "&lt;script&gt;" in views[2]


def test_every_object_says_what_it_is(run: Run) -> None:
    assert repr(run).endswith("run: finished, 10 steps, 2 findings>")
    assert repr(run.hits) == "<Hits: 3>"
    assert repr(run.findings) == "<Findings: dead_relu, lr_too_high>"
    assert repr(run.steps) == "<Steps: 10, the last is 9>"
    assert repr(run.tensor("encoder.0", "output", step=6)) == "<RunTensor encoder.0 output.0 at step 6: values kept>"
    assert repr(run.nodes("encoder")) == "<Nodes 'encoder': 3>"


def test_a_micro_step_is_a_row_of_its_own(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", RunInfo("x", (), 0.0))
    writer.tensor(TENSORS[0])
    seen = tuple(Observation(0, micro, Stats(1, max=float(micro)), micro=micro) for micro in range(3))
    writer.step(StepRecord(0, 0.0, 0.0, observations=seen, micro=3))
    run = open_run(tmp_path / "run")
    assert run.nodes().outputs().stats().column("micro") == [0, 1, 2]
    assert run.tensor("encoder.0", "output").stats == Stats(1, max=2.0)
    assert len(run.tensor("encoder.0", "output").observations) == 3
