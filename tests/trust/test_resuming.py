"""A training that was interrupted and resumed is one history."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
import torch

from tensight.cli import main
from tensight.errors import UsageError
from tensight.records import RunEnd, StepRecord
from tensight.runs import history, html, open_run
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.store import Writer
from tensight.testing.store_suite import run_info


def recorded(folder: Path, steps: int, *, resumes: str = "", after: int = 0, begin: float = 0.0) -> Path:
    info = msgspec.structs.replace(run_info(), id=folder.name, resumes=resumes, resumed_after=after)
    writer = Writer(folder, info)
    for step in range(steps):
        writer.step(StepRecord(step, 1.0 + step, 0.01, loss=begin + step))
    writer.end(RunEnd("stopped", 1.0, 0, steps))
    writer.close()
    return folder


def test_steps_of_both_are_counted_on_and_those_after_the_checkpoint_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "first", 12)
    recorded(tmp_path / "second", 5, resumes="first", after=10, begin=100.0)
    third = recorded(tmp_path / "third", 3, resumes="second", after=5, begin=200.0)
    run = open_run(third)
    assert [(leg.run.name, leg.first, leg.steps) for leg in run.history] == [
        ("first", 0, 10),
        ("second", 10, 5),
        ("third", 15, 3),
    ]
    losses = [*map(float, range(10)), *(100.0 + step for step in range(5)), *(200.0 + step for step in range(3))]
    assert history.losses(run) == list(enumerate(losses))
    main(["explain", str(third)])
    assert "resumed after 10 of first, 5 of second: 18 steps in all" in capsys.readouterr().out
    assert run.report()["history"][2] == {"run": "third", "first": 15, "steps": 3}
    html.write(run, tmp_path / "run.html", [])
    page = (tmp_path / "run.html").read_text()
    assert "step 10: resumed as second" in page
    assert "step 17" in page


def test_a_run_alone_is_its_own_history(tmp_path: Path) -> None:
    run = open_run(recorded(tmp_path / "one", 4))
    assert [(leg.run.name, leg.first, leg.steps) for leg in run.history] == [("one", 0, 4)]


@pytest.mark.parametrize("name", ["gone", "../first", "second", ""])
def test_a_run_that_names_what_is_not_beside_it_stands_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    recorded(tmp_path / "first", 4)
    run = open_run(recorded(tmp_path / "runs" / "second", 3, resumes=name, after=4))
    assert [leg.run.name for leg in run.history] == ["second"]


def test_a_session_notes_what_it_goes_on_with(tmp_path: Path) -> None:
    earlier = recorded(tmp_path / "first", 7)
    for asked, after in ((str(earlier), 7), (f"{earlier}@4", 4)):
        folder = tmp_path / f"second-{after}"
        session = Session(Settings(run_dir=folder, resume=asked, rewind=False), Terminal(io.StringIO()))
        session.start()
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
        session.finish("finished", script_exit=0)
        info = open_run(folder).info
        assert (info.resumes, info.resumed_after) == ("first", after)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{}/gone", "no run"), ("{}/first@99", "has only 7 steps"), ("{}/other/far", "in the folder of the new one")],
)
def test_what_cannot_be_resumed_is_one_sentence_and_leaves_no_folder(text: str, words: str, tmp_path: Path) -> None:
    recorded(tmp_path / "first", 7)
    (tmp_path / "other").mkdir()
    recorded(tmp_path / "other" / "far", 2)
    settings = Settings(run_dir=tmp_path / "second", resume=text.format(tmp_path))
    with pytest.raises(UsageError, match=words) as caught:
        Session(settings, Terminal(io.StringIO()))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "second").exists()
