"""Why replicas part, where the recordings of all ranks together show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from torch import nn

from tensight.diagnosis.differing import AT_FIRST
from tensight.diagnosis.engine import Engine
from tensight.frameworks.torch import replicas
from tensight.records import (
    Event,
    Evidence,
    Finding,
    Observation,
    Part,
    RunEnd,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
    Where,
)
from tensight.runs.ranks import disagreement
from tensight.runs.ranks_causes import refined
from tensight.runs.ranks_statistics import statistics_apart
from tensight.store import Reader, Writer
from tensight.testing.store_suite import run_info

DDP = "DistributedDataParallel"
MADE = Source("train.py", 7, "opt = SGD(net.parameters())")


def recorded(
    folder: Path,
    parts: Sequence[Sequence[Part]],
    record: Callable[[int, int], dict[str, Any]] = lambda rank, step: {},
    tensors: Sequence[TensorInfo] = (),
    steps: int = 3,
) -> dict[int, Reader]:
    """A run of as many ranks as there are lists of parts."""
    for rank, own in enumerate(parts):
        writer = Writer(folder, msgspec.structs.replace(run_info(), rank=rank, ranks=len(parts)))
        for part in own:
            writer.part(part)
        for tensor in tensors:
            writer.tensor(tensor)
        for step in range(steps):
            writer.step(StepRecord(step, 100.0 + step, 0.1, loss=1.0, **record(rank, step)))
        writer.end(RunEnd("finished", 200.0, 0, steps))
        writer.close()
    return {rank: Reader(folder, rank) for rank in range(len(parts))}


def apart(*evidence: Evidence) -> Finding:
    where = Where(parameter="0.weight", file="train.py", line=3)
    return Finding("replicas_diverge", "distributed", "they differ", 0.9, 0, where, "they differ", evidence)


def optimizer(**settings: float) -> Part:
    return Part("optimizer", "SGD", "SGD", dict(settings), MADE)


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        ([{"lr": 0.1, "momentum": 0.9}] * 2, "they differ"),
        ([{"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.5}], "ranks use another momentum"),
    ],
)
def test_optimizers_that_were_made_differently_are_the_cause(
    settings: list[dict[str, float]], title: str, tmp_path: Path
) -> None:
    (found,) = refined([apart()], recorded(tmp_path, [[optimizer(**one)] for one in settings]))
    assert found.title.startswith(title)
    if "momentum" in title:
        assert (found.where.line, found.where.parameter) == (7, "0.weight")
        assert "0.9 on rank 0, 0.5 on rank 1" in found.why


def test_another_learning_rate_from_the_start_points_to_the_optimizer(tmp_path: Path) -> None:
    readers = recorded(tmp_path, [[optimizer()]] * 2, lambda rank, step: {"scalars": {"lr": 0.1 * (1 + rank)}})
    (found,) = refined([apart()], readers)
    assert "0.1 on rank 0, 0.2 on rank 1" in found.why
    assert found.where.line == 7


@pytest.mark.parametrize(("who", "title"), [({0}, "only rank 0 loaded weights"), ({0, 1}, "they differ")])
def test_a_rank_that_alone_has_loaded_weights_is_named(who: set[int], title: str, tmp_path: Path) -> None:
    loaded = Event("weights_loaded", part="net", source=Source("train.py", 9, "net.load_state_dict(saved)"))

    def record(rank: int, step: int) -> dict[str, Any]:
        return {"events": (loaded,) if rank in who and step == 0 else ()}

    (found,) = refined([apart(Evidence(AT_FIRST, True, 0))], recorded(tmp_path, [[], []], record))
    assert found.title.startswith(title)
    assert found.where.line == (9 if who == {0} else 3)


@pytest.mark.parametrize(
    ("broadcast", "spread", "found"),
    [
        (False, (1.0, 4.0), True),
        (False, (1.0, 1.1), False),  # each rank follows batches of the same data
        (True, (1.0, 4.0), False),  # those of rank 0 are taken at the next forward
    ],
)
def test_statistics_that_each_rank_keeps_for_itself(
    broadcast: bool, spread: tuple[float, float], found: bool, tmp_path: Path
) -> None:
    wrapper = Part("wrapper", DDP, DDP, {"ranks": 2, "broadcast_buffers": broadcast}, MADE)
    info = TensorInfo(0, "buffer", "bn", "running_var", "net", shape=(4,), dtype="float32")

    def record(rank: int, step: int) -> dict[str, Any]:
        seen = Observation(0, 0, Stats(count=4, mean=spread[rank]), phase="update")
        return {"observations": (seen,) if step % 10 == 0 else ()}

    said = statistics_apart(recorded(tmp_path, [[wrapper]] * 2, record, [info], steps=41))
    assert [(one.fault, one.where.parameter) for one in said] == (
        [("replicas_diverge", "bn.running_var")] if found else []
    )


SINGLE = Part("agreement", "s", "single", {"network": "net", "ranks": "0 1"}, MADE, ("0.weight",))


@pytest.mark.parametrize(
    ("rates", "more", "found"),
    [
        ((0.1, 0.1), [], True),
        ((0.1, 0.2), [], False),  # each rank tries something of its own
        ((0.1, 0.1), [Part("exchange", "all_reduce", "all_reduce")], False),  # averaged now and then
    ],
)
def test_ranks_that_begin_alike_and_never_average_anything(
    rates: tuple[float, float], more: list[Part], found: bool, tmp_path: Path
) -> None:
    def record(rank: int, step: int) -> dict[str, Any]:
        sums = f"{1 if step == 0 else 10 * step + rank:016x}"
        return {"events": (Event("agreement", part="s", values={"update": step, "step": step, "sums": sums}),)}

    readers = recorded(tmp_path, [[optimizer(lr=rate), SINGLE, *more] for rate in rates], record)
    said = disagreement(readers)
    assert [(one.fault, one.since_step, one.where.line) for one in said] == (
        [("replicas_diverge", 0, 7)] if found else []
    )
    assert not said or "each process trains by its own data alone" in said[0].why


def test_epochs_that_are_shuffled_alike_are_a_finding() -> None:
    engine = Engine()
    told = Event("same_order", part="DataLoader", values={"epochs": 3, "epoch": 0, "since": 8}, source=MADE)
    engine.step(StepRecord(16, 0.0, 0.1, events=(told,)))
    engine.end(crashed=False)
    ((fault, since),) = [(one.fault, one.since_step) for one in engine.findings]
    assert (fault, since) == ("sampler_epoch_not_set", 8)


def called() -> Source | None:
    return replicas._line_outside()


class Net(nn.Module):
    def loss(self) -> Source | None:
        return called()


def test_a_wrapper_is_bypassed_where_a_method_of_its_module_is_called_not_inside_it() -> None:
    found = Net().loss()
    assert found is not None
    assert found.code == "found = Net().loss()"
