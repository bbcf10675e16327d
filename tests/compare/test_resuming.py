"""A resumed training against one that ran through, accumulated batches against whole ones, ranks against one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tensight
from tensight.cli import main
from tensight.errors import UsageError
from tests.compare.written import chain

AT = 3


def train(folder: Path, state: dict[str, Any] | None = None, lost: str = "") -> dict[str, Any]:
    """Six steps; or those from the checkpoint `state` on, of which one thing is lost. Returns the checkpoint."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 3))
    torch.manual_seed(1)
    data, labels = torch.randn(10, 12, 8), torch.randint(0, 3, (10, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    place = 0
    torch.manual_seed(7)
    if state is not None:
        state = copy.deepcopy(state)
        if lost != "weights":
            model.load_state_dict(state["model"])
        if lost != "optimizer state":
            optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        for group in optimizer.param_groups:
            group["lr"] = 0.01 if lost == "scheduler" else state["optimizer"]["param_groups"][0]["lr"]
        if lost != "random state":
            torch.set_rng_state(state["random"])
        place = 0 if lost == "data position" else AT
    saved: dict[str, Any] = {}
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False):
        for step in range(AT if state else 0, 6):
            if step == AT and state is None:
                saved = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "random": torch.get_rng_state(),
                }
                saved = copy.deepcopy(saved)
            loss = nn.functional.cross_entropy(model(data[place]), labels[place])
            place += 1
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
    return saved


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, train(folder)


def test_a_training_that_got_everything_back_is_identical(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    train(tmp_path / "b", whole[1])
    found = tensight.compare(whole[0], tmp_path / "b", resumed_at=AT)
    assert (found.verdict, found.first_divergence) == ("identical", None)
    assert {one.what: one.restored for one in found.resumed} == {
        "weights": True,
        "data position": True,
        "random state": True,
        "scheduler": True,
        "optimizer state": True,
    }


@pytest.mark.parametrize("lost", ["weights", "data position", "random state", "scheduler", "optimizer state"])
def test_what_was_not_restored_is_named(whole: tuple[Path, dict[str, Any]], tmp_path: Path, lost: str) -> None:
    train(tmp_path / "b", whole[1], lost)
    found = tensight.compare(whole[0], tmp_path / "b", resumed_at=AT)
    assert [one.what for one in found.resumed if one.restored is False] == [lost]
    assert found.first_divergence is not None
    assert found.first_divergence.step == AT
    assert f"not restored from the checkpoint: {lost}" in found.first_divergence.likely_cause


def test_the_command_tells_it_too(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "b", whole[1], "data position")
    main(["compare", str(whole[0]), str(tmp_path / "b"), "--resumed-at", str(AT)])
    said = capsys.readouterr().out
    assert "resumed   data position: NOT restored (B begins with the batch of step 0 of A)" in said
    with pytest.raises(UsageError, match="has no step 40"):
        tensight.compare(whole[0], tmp_path / "b", resumed_at=40)


def accumulate(folder: Path, micro: int = 1, *, divide: bool = True, norm: Any = nn.LayerNorm) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), norm(16), nn.ReLU(), nn.Linear(16, 3))
    torch.manual_seed(1)
    x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False):
        for _ in range(2):
            optimizer.zero_grad()
            for part, labels in zip(x.chunk(micro), y.chunk(micro)):
                loss = nn.functional.cross_entropy(model(part), labels)
                (loss / micro if divide else loss).backward()
            optimizer.step()
    return folder


def test_gradients_accumulated_over_micro_steps_agree_with_those_of_the_whole_batch(tmp_path: Path) -> None:
    found = tensight.compare(accumulate(tmp_path / "a"), accumulate(tmp_path / "b", 3))
    assert (found.verdict, found.faults) == ("rounding", [])


def test_a_loss_that_is_not_divided_by_the_micro_steps_is_named(tmp_path: Path) -> None:
    first = tensight.compare(accumulate(tmp_path / "a"), accumulate(tmp_path / "b", 3, divide=False)).first_divergence
    assert first is not None
    assert first.phase == "backward"
    assert "3 times" in first.likely_cause
    assert "not divided" in first.likely_cause


def test_batch_norm_is_named_as_what_no_accumulation_makes_good(tmp_path: Path) -> None:
    a = accumulate(tmp_path / "a", norm=nn.BatchNorm1d)
    first = tensight.compare(a, accumulate(tmp_path / "b", 3, norm=nn.BatchNorm1d)).first_divergence
    assert first is not None
    assert (first.module, first.phase) == ("1", "forward")
    assert "micro-batch" in first.likely_cause


def test_what_ranks_saw_in_pieces_is_put_together(tmp_path: Path) -> None:
    one = chain(tmp_path / "one", keep=False)
    for rank, part in enumerate((slice(0, 4), slice(4, 8))):
        chain(tmp_path / "two", keep=False, rank=rank, ranks=2, part=part)
        chain(tmp_path / "wrong", keep=False, rank=rank, ranks=2, part=part, wrong_from=9 if rank else None)
    found = tensight.compare(one, tmp_path / "two")
    assert (found.verdict, found.faults) == ("rounding", [])
    assert "put together" in found.reason
    first = tensight.compare(one, tmp_path / "wrong").first_divergence
    assert first is not None
    assert first.module == "layer9"


def test_as_many_ranks_are_compared_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, part in enumerate((slice(0, 4), slice(4, 8))):
        chain(tmp_path / "a", rank=rank, ranks=2, part=part)
        chain(tmp_path / "same", rank=rank, ranks=2, part=part)
        chain(tmp_path / "b", rank=rank, ranks=2, part=part, wrong_from=12 if rank else None)
    assert tensight.compare(tmp_path / "a", tmp_path / "same").verdict == "identical"
    main(["compare", "--json", str(tmp_path / "a"), str(tmp_path / "b")])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "different"
    assert (found["first_divergence"]["module"], found["first_divergence"]["rank"]) == ("layer12", 1)
