"""DDP, FSDP2, tensor parallel and pipeline stages on two ranks: the same bits, no collective more, parts known as such.

One program trains five networks. It is run twice, as it is and by `tensight run`, and the two are compared.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensight
from tensight.records import Shard, TensorInfo
from tensight.runs import Run

PROGRAM = Path(__file__).with_name("sharded.py")
STEPS = 4  # of each network
pytestmark = pytest.mark.timeout(1500)


class Twice:
    """What the program has said without and with Tensight, and the run that was recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = self._run("bare")
        record = ["-m", "tensight", "run", "--no-page", "--budget", "100", "--run-dir", str(folder / "run")]
        self.watched = self._run("watched", *record)
        self.run: Run = tensight.open(str(folder / "run"))

    def _run(self, name: str, *options: str) -> list[dict[str, Any]]:
        out = self.folder / name
        out.mkdir()
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        done = subprocess.run(
            [sys.executable, *launch, *options, str(PROGRAM), str(out)],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=700,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.printed = done.stdout + done.stderr
        return [json.loads((out / f"rank-{rank}.json").read_text()) for rank in (0, 1)]

    def info(self, rank: int, network: str, name: str, kind: str = "weight") -> TensorInfo:
        tensors = self.run.readers[rank].tensors.values()
        (found,) = [one for one in tensors if (one.network, one.name, one.kind) == (network, name, kind)]
        return found


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    return Twice(tmp_path_factory.mktemp("sharded"))


@pytest.mark.parametrize("mode", ["ddp", "fsdp", "tp", "pipeline", "spoilt"])
def test_losses_and_weights_are_the_same_bit_by_bit_and_no_collective_is_added(mode: str, twice: Twice) -> None:
    for bare, watched in zip(twice.bare, twice.watched):
        assert watched[mode] == bare[mode]


def test_nothing_was_held_back(twice: Twice) -> None:
    assert "an error inside Tensight" not in twice.printed
    assert list(twice.run.lost) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_part_is_recorded_with_its_placement_mesh_and_whole_shape(rank: int, twice: Twice) -> None:
    info = twice.info(rank, "net-2", "0.weight")
    assert info.shape == (4, 4)
    assert info.shard == Shard((8, 4), ("S(0)",), (2,), ("shard",), at=(rank,), ranks=(rank,))
    assert twice.info(rank, "net-2", "0.weight", "gradient").shard == info.shard
    columns, whole = twice.info(rank, "net-3", "2.weight"), twice.info(rank, "net-3", "2.bias")
    assert (columns.shape, columns.shard and columns.shard.placements) == ((1, 4), ("S(1)",))
    assert (whole.shape, whole.shard and whole.shard.ranks) == ((1,), (0, 1))


def test_a_rank_that_holds_nothing_of_a_parameter_is_no_trouble(twice: Twice) -> None:
    assert twice.info(0, "net-2", "2.weight").shape == (1, 8)
    assert twice.info(1, "net-2", "2.weight").shape == (0, 8)
    assert twice.run.whole("2", "weight", step=STEPS, network="net-2").stats is not None


def test_statistics_of_a_sharded_parameter_are_put_together_when_they_are_read(twice: Twice) -> None:
    # one network, one seed: before the first update it is the same in parts and whole
    whole = first_seen(twice, 0, "net", "0.weight")
    parts = [first_seen(twice, rank, "net-2", "0.weight") for rank in (0, 1)]
    assert [part.count for part in parts] == [16, 16]
    assert math.hypot(*(part.l2 for part in parts)) == pytest.approx(whole.l2)
    found = twice.run.whole("0", "weight", step=STEPS, network="net-2")
    assert (found.shape, found.stats and found.stats.count, sorted(found.pieces)) == ((8, 4), 32, [0, 1])
    # replicas stand for each other
    replicated = twice.run.whole("0", "weight", step=0, network="net")
    assert replicated.stats is not None
    assert replicated.stats.count == 32


def first_seen(twice: Twice, rank: int, network: str, name: str) -> Any:
    wanted = twice.info(rank, network, name).id
    for step in twice.run.readers[rank].steps:
        for one in step.observations:
            if one.tensor == wanted:
                return one.stats
    raise AssertionError(f"{name} of {network} was never seen")


def test_stages_of_a_pipeline_are_watched_each_on_its_rank(twice: Twice) -> None:
    for rank, size in ((0, 8), (1, 1)):
        assert twice.info(rank, "part", "0.bias").shape == (size,)
        reader = twice.run.readers[rank]
        outputs = [one for one in reader.tensors.values() if one.network == "part" and one.kind == "output"]
        assert {one.call for one in outputs} >= {0, 1}  # micro-batches


def test_a_nan_in_one_part_is_found_on_its_rank_by_the_name_of_the_parameter(twice: Twice) -> None:
    (finding,) = twice.run.findings
    assert finding.category == "numeric-nonfinite"
    assert (finding.rank, finding.since_step, finding.where.parameter) == (1, 4 * STEPS + 2, "0.weight")
    gradient = twice.run.whole("0", "weight.grad", step=4 * STEPS + 2, network="net-4")
    assert {rank: piece.nan for rank, piece in gradient.pieces.items()} == {0: 0, 1: 1}
    assert gradient.stats is not None
    assert gradient.stats.nan == 1
