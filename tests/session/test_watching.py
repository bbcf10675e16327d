"""`tensight.watch`: the debugger inside a script or notebook."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch import nn

import tensight
from tensight.errors import UsageError
from tensight.store.reader import Reader


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(session: object, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 5) -> list[float]:
    losses = []
    batches = [torch.randn(8, 4, generator=torch.Generator().manual_seed(n)) for n in range(steps)]
    for x in session.steps(batches):  # type: ignore[attr-defined]
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_a_model_made_before_is_watched_and_the_run_can_be_opened(tmp_path: Path) -> None:
    model, optimizer = parts()
    with tensight.watch(model, optimizer=optimizer, run_dir=tmp_path / "run", quiet=True) as session:
        losses = train(session, model, optimizer)
        assert session.findings == []
    run = tensight.open(tmp_path / "run")
    assert [step.loss for step in run.steps] == losses
    assert [network.type for network in run.networks] == ["Sequential"]
    assert run.ended == "finished"
    kinds = {run.tensors[seen.tensor].kind for seen in run.steps[2].observations}
    assert {"output", "activation", "output_gradient", "gradient", "weight", "loss"} <= kinds


def test_what_is_given_as_watchpoint_is_hit(tmp_path: Path) -> None:
    model, optimizer = parts()
    point = "TL(max_gt=-1000) on weight:0.weight"
    with tensight.watch(model, optimizer, run_dir=tmp_path / "run", watchpoints=[point], quiet=True) as session:
        train(session, model, optimizer)
    hits = tensight.open(tmp_path / "run").hits.where(condition="TL")
    assert hits
    assert {(hit.node, hit.slot) for hit in hits} == {("0", "weight")}


def test_an_error_of_the_users_passes_and_is_recorded(tmp_path: Path) -> None:
    model, optimizer = parts()
    with (
        pytest.raises(RuntimeError, match="shapes"),
        tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True),
    ):
        model(torch.randn(2, 5))
    run = tensight.open(tmp_path / "run")
    assert run.ended == "failed"
    assert run.crash is not None


def test_two_sessions_at_once_are_refused_in_one_sentence(tmp_path: Path) -> None:
    model, optimizer = parts()
    with (
        tensight.watch(model, optimizer, run_dir=tmp_path / "a", quiet=True),
        pytest.raises(UsageError, match="watched already"),
        tensight.watch(model, optimizer, run_dir=tmp_path / "b", quiet=True),
    ):
        pass


def test_what_is_no_model_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no model"), tensight.watch([1], run_dir=tmp_path / "run", quiet=True):
        pass


def test_switched_off_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSIGHT", "off")
    model, optimizer = parts()
    with tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True) as session:
        train(session, model, optimizer)
        assert session.findings == []
    assert not (tmp_path / "run").exists()


def test_conditions_go_by_their_class_names(tmp_path: Path) -> None:
    model, optimizer = parts()
    with tensight.watch(model, optimizer, run_dir=tmp_path / "run", quiet=True) as session:
        train(session, model, optimizer)
    run = tensight.open(tmp_path / "run")
    assert not run.check(tensight.TensorOverflow(), nodes="gradient:*")  # type: ignore[attr-defined]
    assert run.check(tensight.TensorTooLarge(max_gt=-1000), nodes="gradient:*")  # type: ignore[attr-defined]


def test_where_the_run_is_stands_at_the_end_and_in_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = parts()
    with tensight.watch(model, optimizer, run_dir=tmp_path / "run") as session:
        train(session, model, optimizer)
    said = capsys.readouterr().err
    assert said.rstrip().endswith(f"recorded in {tmp_path / 'run'}; see it again: tensight view {tmp_path / 'run'}")
    assert repr(session) == f"<Watching: {tensight.open(tmp_path / 'run')!r}>"


def test_a_run_starts_with_its_session_and_not_with_its_first_record(tmp_path: Path) -> None:
    before = time.time()
    model, optimizer = parts()
    session = tensight.watch(model, optimizer=optimizer, run_dir=tmp_path / "run", quiet=True)
    with session:
        time.sleep(0.2)  # a script imports, reads its data first
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    run = tensight.open(tmp_path / "run")
    assert run.info.started - before < 0.2
    [step] = Reader(tmp_path / "run").steps
    assert step.seconds <= step.time - run.info.started + 0.01
