"""What a newcomer does wrong in the first hour, and the sentence that must come back."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tensight.cli.doctor import look
from tensight.cli.twice import _last
from tests.cli import programs
from tests.cli.calling import called

Ran = subprocess.CompletedProcess[str]
Tensight = Callable[..., Ran]


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    _, err, code = called(["explian", "runs/train-1"], capsys)
    assert code == 2
    assert err == "tensight: No such command 'explian'. Did you mean 'explain'? `tensight --help` lists them\n"


def test_a_watchpoint_on_a_name_that_is_not_there_is_said_of_a_recorded_run(
    healthy: tuple[Path, Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(healthy[0] / "runs" / "train-1")
    out, err, code = called(["check", run, "--watch", "TL(max_gt=9999) on gradient:encodr.*"], capsys)
    assert (out, code) == ("0 hits\n", 0)
    assert err == "tensight check: 'gradient:encodr.*' selects nothing that was recorded\n"
    _, err, _ = called(["check", run, "--watch", "TL(max_gt=9999) on gradient:*"], capsys)
    assert err == ""


def test_a_watchpoint_on_a_name_that_is_not_there_is_said_while_the_script_runs(
    run_tensight: Tensight, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(programs.HEALTHY)
    watch = ["--watch", "TL(max_gt=9999) on gradient:encodr.*", "--watch", "TL(max_gt=9999) on gradient:0.*"]
    ran = run_tensight(tmp_path, "run", "--no-page", *watch, "train.py")
    assert ran.stderr.count("selects nothing so far") == 1
    assert "tensight: --watch: 'gradient:encodr.*' selects nothing so far" in ran.stderr


def test_a_place_for_the_run_that_is_not_known_leaves_no_empty_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(programs.HEALTHY)
    _, err, code = called(["run", "--no-page", "--run-dir", "nowhere://x/y", "train.py"], capsys)
    assert code == 2
    assert "nowhere://x/y cannot be reached from here" in err
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_server_that_does_not_answer_is_said_and_the_training_goes_on(run_tensight: Tensight, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: whoever asks is refused
        port = held.getsockname()[1]
        (tmp_path / "train.py").write_text(programs.HEALTHY)
        ran = run_tensight(tmp_path, "run", "--server", f"127.0.0.1:{port}", "train.py")
    assert ran.returncode == 0
    assert f"tensight: no server answers at 127.0.0.1:{port} (connection refused)" in ran.stderr
    assert "30 steps" in ran.stderr


def test_what_a_baseline_holds_is_not_said_again_but_counted(
    nan: tuple[Path, Ran], run_tensight: Tensight, tmp_path: Path
) -> None:
    known = tmp_path / "known.json"
    run_tensight(tmp_path, "explain", str(nan[0] / "runs" / "train-1"), "--write-baseline", str(known))
    shutil.copy(nan[0] / "train.py", tmp_path)
    ran = run_tensight(tmp_path, "run", "--no-page", "--fail-on", "finding", "--baseline", str(known), "train.py")
    assert ran.returncode == 0
    assert "✖" not in ran.stderr
    assert "nothing new was found wrong; 1 known finding is left out" in ran.stderr
    again = run_tensight(tmp_path, "explain", "runs/train-1", "--baseline", str(known))
    assert "nothing new was found wrong; 1 known finding is left out" in again.stdout


def test_a_script_without_a_model_is_not_called_healthy(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing here')\n")
    ran = run_tensight(tmp_path, "run", "--no-page", "train.py")
    assert "0 steps; no call of a model was seen, so nothing was judged" in ran.stderr
    assert "nothing was found wrong" not in ran.stderr


def test_a_script_that_python_cannot_read_is_said_to_be_so(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def f(:\n")
    ran = run_tensight(tmp_path, "run", "--no-page", "train.py")
    assert ran.returncode == 1
    assert "Python cannot read this line, so nothing of the script has run" in ran.stderr
    twice = run_tensight(tmp_path, "twice", "train.py")
    assert twice.returncode == 2
    assert twice.stderr.splitlines()[-1].endswith(
        "the script failed before its first step: SyntaxError: invalid syntax"
    )


def test_what_is_no_certificate_is_said_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("hello")
    _, err, code = called(["serve", "--tls-cert", str(tmp_path / "text.txt")], capsys)
    assert code == 2
    assert "it must be in PEM form" in err
    assert "_ssl" not in err


def test_what_the_script_said_last_is_found_where_tensight_speaks_too() -> None:
    assert _last("KeyError: 'x'\n\n✖ KeyError: 'x'\n  why  no key\n\ntensight: 0 steps\n") == "KeyError: 'x'"
    assert _last("") == "no output"


def test_doctor_names_what_commands_lack() -> None:
    found = {one.what: one for one in look()}
    for command in ("tensight query, export", "tensight tune", "tensight mcp"):
        assert (found[command].state == "ok") == (found[command].remedy == "")


def test_a_module_gets_its_own_options_as_python_gives_them(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/train.py").write_text("import sys\nprint(sys.argv[1:])\n" + programs.HEALTHY)
    own = ["--lr", "0.1", "-v", "--max-steps", "3"]
    ran = run_tensight(tmp_path, "run", "--no-page", "-m", "shop.train", *own)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == str(own)
    assert "30 steps" in ran.stderr
    for words in (["preflight", "--json"], ["profile", "--json"], ["twice", "--json"]):
        ran = run_tensight(tmp_path, *words, "-m", "shop.train", *own)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)


def test_a_run_that_is_named_without_its_folder_is_offered(
    healthy: tuple[Path, Ran], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(healthy[0])
    _, err, code = called(["explain", "train-1"], capsys)
    assert (code, err) == (2, "tensight: there is no run train-1: did you mean runs/train-1?\n")


def test_what_is_given_in_place_of_something_else_is_said(
    healthy: tuple[Path, Ran], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "search.yaml").write_text(
        "command: python train.py --lr {lr}\nminimize: loss\nparameters:\n  lr: 1..2\n"
    )
    run = str(healthy[0] / "runs" / "train-1")
    for words, said in (
        (["explain", run, "--html", str(tmp_path)], "it is a folder; name a file"),
        (["mcp", str(tmp_path / "text.txt")], "is a file, not a run: name a run, or a folder of runs"),
        (["tune", str(tmp_path / "search.yaml"), "--resume", str(tmp_path)], "holds no search"),
        (["twice", str(tmp_path)], "is a folder; give a path to a Python file"),
    ):
        out, err, code = called(words, capsys)
        assert (out, code) == ("", 2), words
        assert said in err
        assert err.count("\n") == 1


def test_an_option_behind_the_script_is_told_to_be_the_scripts(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing here')\n")
    (tmp_path / "reports.py").write_text("import sys\nwrites = '--report' in sys.argv\n")
    said = "tensight: --no-page stands behind train.py and goes to the script; options of Tensight stand before it\n"
    ran = run_tensight(tmp_path, "run", "--no-page", "train.py", "--no-page", "--max-steps", "3")
    assert (ran.returncode, ran.stdout) == (0, "nothing here\n")
    assert ran.stderr.count("stands behind") == 1
    assert said in ran.stderr
    ran = run_tensight(tmp_path, "run", "--no-page", "reports.py", "--report", "x")
    assert "stands behind" not in ran.stderr
