"""An error inside Tensight never ends or changes the training, and the report says what was lost."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensight.diagnosis.engine import Engine
from tensight.diagnosis.rules import RULES
from tensight.runs import open_run
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.watchpoints.catalogue import CONDITIONS
from tests.harm.networks import Setting, run


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("injected")


def watched(
    folder: Path, name: str = "mlp", spoil: Callable[[Session], None] | None = None
) -> tuple[dict[str, object], dict[str, Any], str]:
    words = io.StringIO()
    session = Session(Settings(run_dir=folder, budget=100), Terminal(words))
    session.start()
    try:
        if spoil is not None:
            spoil(session)
        result = run(name, Setting())
    finally:
        session.finish("finished", script_exit=0)
    return result, open_run(folder).report(), words.getvalue()


def assert_lost(report: dict[str, Any], words: str) -> None:
    assert "the training goes on" in words
    assert report["lost"], "the report says nothing of what was lost"


@pytest.mark.parametrize("code", sorted(CONDITIONS))
def test_an_error_in_a_condition(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONDITIONS[code], "judge", broken)
    result, report, words = watched(tmp_path / "run")
    assert result == run("mlp", Setting())
    assert report["run"]["steps"] == 4
    if words:
        assert "Traceback" not in words


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_an_error_in_a_rule(rule: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "conclude", broken)
    result, report, words = watched(tmp_path / "run")
    assert result == run("mlp", Setting())
    assert_lost(report, words)


@pytest.mark.parametrize("name", ["observe", "event", "part", "network", "tensor", "needs", "loss", "scalar", "new_id"])
def test_an_error_in_what_a_probe_tells(name: str, tmp_path: Path) -> None:
    result, report, words = watched(tmp_path / "run", spoil=lambda session: setattr(session.recorder, name, broken))
    assert result == run("mlp", Setting())
    assert_lost(report, words)


@pytest.mark.parametrize("name", ["_check", "_conclude"])
def test_an_error_between_steps(name: str, tmp_path: Path) -> None:
    result, _, words = watched(tmp_path / "run", spoil=lambda session: setattr(session.recorder, name, broken))
    assert result == run("mlp", Setting())
    assert "the training goes on" in words


def test_an_error_in_the_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensight.frameworks.torch import statistics

    for name in [name for name in vars(statistics) if callable(getattr(statistics, name)) and name.startswith("stat")]:
        monkeypatch.setattr(statistics, name, broken)
    result, _, _ = watched(tmp_path / "run", name="resnet_with_in_place_operators")
    assert result == run("resnet_with_in_place_operators", Setting())


@pytest.mark.parametrize("name", ["step", "network", "part", "tensor", "findings", "coverage", "end"])
def test_an_error_in_the_writer(name: str, tmp_path: Path) -> None:
    words = io.StringIO()
    session = Session(Settings(run_dir=tmp_path / "run", budget=100), Terminal(words))
    session.start()
    setattr(session.recorder.writer, name, broken)
    result = run("mlp", Setting())
    session.finish("finished", script_exit=0)
    assert result == run("mlp", Setting())


def test_an_error_in_the_whole_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("step", "network", "part", "tensor", "end"):
        monkeypatch.setattr(Engine, name, broken)
    result, report, words = watched(tmp_path / "run")
    assert result == run("mlp", Setting())
    assert_lost(report, words)


def test_a_full_disk(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "from tests.harm.networks import Setting, run\n"
        "print([run('mlp', Setting())['losses'] for _ in range(6)])\n"
    )
    root = Path(__file__).parents[2]
    env = dict(os.environ, PYTHONPATH=f"{root / 'src'}{os.pathsep}{root}")
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--budget", "100", "--run-dir", "out", "train.py"]
    ours = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert ours.stdout == plain.stdout
    assert ours.returncode == 0, ours.stderr
    assert "could not be recorded: File too large" in ours.stderr
    assert "The training goes on" in ours.stderr
    assert open_run(tmp_path / "out").steps
