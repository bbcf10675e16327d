"""What is wrong with a launch is said in one sentence, before much time is lost; a right one is left alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tensight.records import Event, Part, StepRecord
from tensight.session.launching import Launch, Launching, check_environment, check_together, read

RIGHT = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


@pytest.mark.parametrize(
    "environ",
    [{}, {"WORLD_SIZE": "1"}, RIGHT, {**RIGHT, "MASTER_ADDR": "node7", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}],
    ids=["no launcher", "one process", "torchrun", "several machines"],
)
def test_a_right_launch_is_left_alone(environ: dict[str, str]) -> None:
    assert check_environment(environ) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"RANK": "4"}, "numbered from 0 to 3"),
        ({"RANK": "first"}, "RANK is 'first', which is no whole number"),
        ({"WORLD_SIZE": "0"}, "at least one rank"),
        ({"WORLD_SIZE": None}, "WORLD_SIZE is not"),
        ({"RANK": None}, "every process would be rank 0"),
        ({"LOCAL_RANK": "4"}, "LOCAL_RANK is 4"),
        ({"LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE is 8 and WORLD_SIZE only 4"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR is not"),
        ({"MASTER_PORT": None}, "MASTER_PORT is not"),
        ({"MASTER_PORT": "http"}, "'http', which is no port"),
        ({"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "several machines"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "names 2 devices for 4 ranks"),
    ],
)
def test_each_mistake_in_the_environment_is_one_sentence(changes: dict[str, str | None], words: str) -> None:
    merged = {**RIGHT, **changes}
    said = check_environment({name: value for name, value in merged.items() if value is not None})
    assert len(said) == 1
    assert words in said[0]
    assert said[0].endswith(".")


def two(first: dict[str, Any], second: dict[str, Any]) -> list[Launch]:
    return [Launch(0, 2, host="here", **first), Launch(1, **{"ranks": 2, "host": "here", **second})]


SHARED: dict[str, Any] = {"sampler": "DistributedSampler", "replicas": 2, "sampler_seed": 0}


@pytest.mark.parametrize(
    "ranks",
    [
        two({}, {}),
        two({"device": "cuda:0", "backend": "nccl"}, {"device": "cuda:1", "backend": "nccl"}),
        two({"device": "cpu", "backend": "gloo"}, {"device": "cpu", "backend": "gloo"}),
        two({**SHARED, "replica": 0}, {**SHARED, "replica": 1}),
        two({"sampler": "RandomSampler", "batches": ("a",)}, {"sampler": "RandomSampler", "batches": ("b",)}),
    ],
    ids=["nothing known", "a device each", "on the CPU", "a part each", "other batches"],
)
def test_ranks_that_fit_together_are_left_alone(ranks: list[Launch]) -> None:
    assert check_together(ranks) == []


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"ranks": 3}, "do not agree on the number of ranks"),
        ({"address": "a:1"}, {"address": "b:1"}, "do not agree on where they meet"),
        ({"backend": "gloo"}, {"backend": "nccl"}, "do not agree on the backend"),
        ({"device": "cuda:0"}, {"device": "cuda:0"}, "2 ranks on here use cuda:0"),
        ({"backend": "nccl", "device": "cpu"}, {"backend": "nccl", "device": "cpu"}, "the model is on the CPU"),
        ({**SHARED, "replica": 0}, {**SHARED, "replica": 0}, "take part 0 of the data"),
        ({**SHARED, "replica": 0}, {**SHARED, "replica": 1, "sampler_seed": 7}, "do not agree on the sampler's seed"),
        ({**SHARED, "replica": 0}, {"sampler": "RandomSampler"}, "Rank 1 has no DistributedSampler"),
        (
            {"sampler": "RandomSampler", "batches": ("a", "b")},
            {"sampler": "RandomSampler", "batches": ("a", "b")},
            "All ranks see the same batches",
        ),
        (
            {**SHARED, "replicas": 4, "replica": 0},
            {**SHARED, "replicas": 4, "replica": 1},
            "divides the data into 4 parts, but there are 2 ranks",
        ),
    ],
)
def test_each_mistake_between_ranks_is_one_sentence(first: dict[str, Any], second: dict[str, Any], words: str) -> None:
    said = check_together(two(first, second))
    assert len(said) == 1
    assert words in said[0]
    assert said[0].endswith(".")


class Bench:
    """One rank's part, with the steps of a training whose batches are given."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.said: list[str] = []
        loader = Part("loader", "DataLoader", "DataLoader", {"sampler": "RandomSampler"})
        found = SimpleNamespace(parts={("loader", "DataLoader"): loader})
        recorder = cast("Any", SimpleNamespace(rank=rank, found=found))
        self.launching = Launching(recorder, folder, self.said.append, lambda: Launch(rank, 2), {})
        self.launching.started()

    def steps(self, first: int, last: int, mean: float) -> None:
        for step in range(first, last):
            values: dict[str, Any] = {"index": step, "mean.0": mean + step, "std.0": 1.0, "min.0": -1.0, "max.0": 2.0}
            self.launching.step_ended(StepRecord(step, 0.0, 0.1, events=(Event("batch", 0, "DataLoader", values),)), ())


@pytest.mark.parametrize("same", [True, False])
def test_ranks_that_are_fed_the_same_batches_are_found_after_a_few_steps(same: bool, tmp_path: Path) -> None:
    first, second = Bench(tmp_path, 0), Bench(tmp_path, 1)
    first.steps(0, 3, 0.5)
    second.steps(0, 3, 0.5 if same else 0.7)
    assert len(read(tmp_path)) == 2
    first.steps(3, 6, 0.5)
    second.steps(3, 6, 0.5)
    assert len(first.said) == (1 if same else 0)  # once, and by one rank alone
    assert second.said == []
