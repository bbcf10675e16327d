"""`--notify`: the user's command is run on a finding, a stall and a crash."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tensight.cli import main
from tensight.records import RunEnd, StepRecord
from tensight.session.reacting import Notifying
from tensight.testing.store_suite import sample_finding
from tests.trust.programs import LONG

WRITES = "import sys, uuid; open(uuid.uuid4().hex + '.json', 'w').write(sys.stdin.read())"


def told(notifying: Notifying, folder: Path) -> list[dict[str, Any]]:
    """What the commands that were started have been told."""
    for process in notifying._started:
        process.wait(LONG)
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def test_the_command_hears_of_a_finding_once_of_a_stall_and_of_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notifying = Notifying(shlex.join([sys.executable, "-c", WRITES]), "runs/x")
    finding = sample_finding(3)
    for step in (3, 4):
        notifying.step_ended(StepRecord(step, 0.0, 0.01), [finding])
        assert len(told(notifying, tmp_path)) == 1
    notifying.tell({"what": "stall", "step": 5, "title": "no step has ended for 60 s"})
    told(notifying, tmp_path)
    notifying.ended(RunEnd("failed", 0.0, 1, 6))
    heard = {one["what"]: one for one in told(notifying, tmp_path)}
    assert set(heard) == {"finding", "stall", "crash"}
    assert all(one["run"] == "runs/x" for one in heard.values())
    assert heard["finding"]["step"] == 3
    assert heard["finding"]["why"] == "because"
    assert heard["crash"]["title"] == "the script failed with 1"


def test_an_end_that_is_no_crash_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notifying = Notifying(shlex.join([sys.executable, "-c", WRITES]), "runs/x")
    for ended in ("finished", "stopped"):
        notifying.ended(RunEnd(ended, 0.0, 0, 6))  # type: ignore[arg-type]
    assert told(notifying, tmp_path) == []


@pytest.mark.parametrize("text", ["'mail me", "  "])
def test_what_is_no_command_is_said_before_the_training(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise AssertionError('it must not run')\n")
    with pytest.raises(SystemExit) as ended:
        main(["run", "--no-page", "--run-dir", str(tmp_path / "run"), "--notify", text, str(script)])
    assert ended.value.code == 2
    assert "is no command" in capsys.readouterr().err
