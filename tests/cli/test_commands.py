"""The commands, as a user calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tensight.cli import COMMANDS, main
from tensight.runs import open_run
from tests.cli import programs

Ran = subprocess.CompletedProcess[str]
Tensight = Callable[..., Ran]


def test_a_healthy_script_is_unchanged_and_nothing_is_found(healthy: tuple[Path, Ran]) -> None:
    folder, ran = healthy
    plain = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.stdout == plain.stdout
    assert ran.returncode == 0
    report = json.loads((folder / "report.json").read_text())
    assert report["findings"] == []
    assert report["run"]["steps"] == 30
    assert report["run"]["ended"] == "finished"
    assert report["run"]["framework"] == "torch"
    assert "nothing was found wrong" in ran.stderr


def test_the_first_steps_are_checked_and_coverage_is_said(healthy: tuple[Path, Ran]) -> None:
    _, ran = healthy
    assert "first step: forward ran" in ran.stderr
    assert "4 of 4 trainable parameters changed" in ran.stderr
    assert "found model (Sequential), Adam" in ran.stderr


def test_a_nan_is_found_with_its_operator_line_and_step(nan: tuple[Path, Ran]) -> None:
    folder, ran = nan
    report = json.loads((folder / "report.json").read_text())
    first = report["findings"][0]
    assert first["category"] == "numeric-nonfinite"
    assert first["since_step"] == 7
    assert first["where"]["line"] == 11
    assert "log" in first["why"]
    assert first["title"] in ran.stderr


def test_explain_prints_the_same_findings_again(nan: tuple[Path, Ran], run_tensight: Tensight) -> None:
    folder, _ = nan
    report = json.loads((folder / "report.json").read_text())
    again = run_tensight(folder, "explain", "--json", "runs/train-1")
    assert json.loads(again.stdout) == report
    text = run_tensight(folder, "explain", "runs/train-1")
    assert report["findings"][0]["title"] in text.stdout


def test_known_findings_are_left_out(nan: tuple[Path, Ran], run_tensight: Tensight) -> None:
    folder, _ = nan
    run_tensight(folder, "explain", "runs/train-1", "--write-baseline", "known.json")
    again = run_tensight(folder, "explain", "runs/train-1", "--baseline", "known.json", "--json")
    assert json.loads(again.stdout)["findings"] == []


def test_fail_on_finding_exits_with_3_and_a_baseline_lets_it_pass(
    nan: tuple[Path, Ran], run_tensight: Tensight
) -> None:
    folder, _ = nan
    options = ["run", "--no-page", "--no-rewind", "--fail-on", "finding"]
    assert run_tensight(folder, *options, "train.py").returncode == 3
    found = json.loads(run_tensight(folder, "explain", "--json", "runs/train-2", "--write-baseline", "all.json").stdout)
    assert found["findings"]
    assert run_tensight(folder, *options, "--baseline", "all.json", "train.py").returncode == 0


def test_check_puts_a_new_question_to_a_recorded_run(healthy: tuple[Path, Ran], run_tensight: Tensight) -> None:
    folder, _ = healthy
    ran = run_tensight(folder, "check", "runs/train-1", "--json", "--watch", "TL(max_gt=-1000) on weight:0.weight")
    hits = json.loads(ran.stdout)["hits"]
    assert hits
    assert {(hit["condition"], hit["node"], hit["slot"]) for hit in hits} == {("TL", "0", "weight")}


def test_params_lists_all_and_trainable_parameters(healthy: tuple[Path, Ran], run_tensight: Tensight) -> None:
    folder, _ = healthy
    found = json.loads(run_tensight(folder, "params", "--json", "runs/train-1").stdout)
    assert found["total"] == {"parameters": 49, "trainable": 49, "buffers": 0}
    assert [row["name"] for row in found["parameters"]] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_params_of_a_script_runs_it_for_one_step(healthy: tuple[Path, Ran], run_tensight: Tensight) -> None:
    folder, _ = healthy
    ran = run_tensight(folder, "params", "train.py")
    assert "49 parameters, 49 trainable" in ran.stdout


def test_a_crash_keeps_exit_code_and_traceback_and_is_explained(crash: tuple[Path, Ran]) -> None:
    folder, ran = crash
    report = json.loads((folder / "report.json").read_text())
    assert ran.returncode == 1
    assert "Traceback (most recent call last):" in ran.stderr
    assert report["run"]["ended"] == "failed"
    assert report["run"]["script_exit"] == 1
    assert report["run"]["steps"] == 30
    assert report["crash"]["where"]["line"] == 12


@pytest.mark.parametrize("environment", [{"TENSIGHT": "off"}, {"MS_ROLE": "MS_SCHED"}], ids=["off", "scheduler"])
def test_switched_off_it_does_nothing(
    environment: dict[str, str], healthy: tuple[Path, Ran], run_tensight: Tensight, tmp_path: Path
) -> None:
    _, ran = healthy
    (tmp_path / "train.py").write_text(programs.HEALTHY)
    off = run_tensight(tmp_path, "run", "--no-page", "train.py", **environment)
    assert off.stdout == ran.stdout
    assert off.stderr == ""
    assert not (tmp_path / "runs").exists()


def test_max_steps_stops_cleanly(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(programs.ENDLESS)
    ran = run_tensight(tmp_path, "run", "--no-page", "--max-steps", "3", "train.py")
    assert ran.returncode == 0
    assert open_run(tmp_path / "runs" / "train-1").ended == "stopped"
    assert len(open_run(tmp_path / "runs" / "train-1").steps) == 3
    assert "the training was stopped: 3 steps are done" in ran.stderr


def test_the_last_words_count_the_hits_that_were_asked_for(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(programs.HEALTHY)
    ran = run_tensight(tmp_path, "run", "--no-page", "--watch", "TL(max_gt=-1000) on weight:0.weight", "train.py")
    told = "nothing was found wrong; 30 hits of your watchpoints"
    assert told in ran.stderr
    assert told in run_tensight(tmp_path, "explain", "runs/train-1").stdout


def test_a_guarded_training_says_why_it_was_stopped(run_tensight: Tensight, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(programs.NAN)
    ran = run_tensight(tmp_path, "run", "--no-page", "--guard", "train.py")
    assert "tensight: the training was stopped: guard: the gradient of " in ran.stderr


@pytest.mark.parametrize(("number", "ended"), [(signal.SIGINT, "stopped"), (signal.SIGKILL, "killed")])
def test_after_ctrl_c_or_a_kill_the_run_can_be_explained(
    number: signal.Signals, ended: str, run_tensight: Tensight, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(programs.ENDLESS)
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "train.py"]
    with (
        (tmp_path / "words.txt").open("w") as words,
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            # a shell's background jobs ignore Ctrl-C, and so would what they start
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for _ in range(20):
                assert process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=120)
        finally:
            process.kill()
    deadline = time.monotonic() + 60
    while open_run(tmp_path / "runs" / "train-1").ended != ended and time.monotonic() < deadline:
        time.sleep(0.1)
    ran = run_tensight(tmp_path, "explain", "--json", "runs/train-1")
    report = json.loads(ran.stdout)
    assert report["run"]["ended"] == ended
    assert report["run"]["steps"] >= 19
    said = (tmp_path / "words.txt").read_text()
    interrupted = f"{report['run']['steps']} steps, then it was interrupted"
    assert (interrupted in said and "nothing was found wrong so far" in said) is (number == signal.SIGINT)


def test_processes_that_a_script_spawns_are_part_of_the_run(run_tensight: Tensight, tmp_path: Path) -> None:
    inner = "".join(f"    {line}\n" for line in programs.HEALTHY.splitlines())
    (tmp_path / "train.py").write_text(
        f"import os, sys\ndef work(rank):\n    os.environ['RANK'] = str(rank)\n{inner}\n"
        "if __name__ == '__main__':\n"
        "    import torch.multiprocessing as mp\n"
        "    mp.spawn(work, nprocs=2)\n"
    )
    ran = run_tensight(tmp_path, "run", "--no-page", "--report", "report.json", "train.py")
    assert ran.returncode == 0, ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["run"]["ranks"] == 2
    assert report["run"]["steps"] == 30
    assert report["findings"] == []


def called(words: list[str]) -> int:
    """A command in this process; only for what runs no script."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(str(stop.value.code or 0))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) is None
    assert "Example:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "nowhere.py"],
        ["run", "--steps", "x", "a.py"],
        ["run", "--budget", "many", "a.py"],
        ["run", "--watch", "XX on weight:*", "a.py"],
        ["run", "--memory-limit", "much", "a.py"],
        ["run", "--report", "nowhere/report.json", "a.py"],
        ["run", "--baseline", "nowhere.json", "a.py"],
        ["run", "--no-such-option", "a.py"],
        ["explain", "nowhere"],
        ["check", "nowhere"],
        ["params", "nowhere"],
        ["demo", "nowhere"],
        ["nosuchcommand"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_one_sentence_and_exit_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    assert called(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1


def test_demo_lists_its_demos(capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--list"])
    assert "nan" in capsys.readouterr().out


def test_the_demo_ends_with_a_finding(run_tensight: Tensight, tmp_path: Path) -> None:
    ran = run_tensight(tmp_path, "demo", "--no-page")
    assert ran.returncode == 0
    assert "✖ step" in ran.stderr
    assert "sqrt" in ran.stderr
    assert "(runs/demo-nan-1.py:18)" in ran.stderr
    assert "torch.sqrt" in (tmp_path / "runs" / "demo-nan-1.py").read_text()  # to be mended, and run again


def test_doctor_says_what_works(run_tensight: Tensight, tmp_path: Path) -> None:
    checks = {one["what"]: one for one in json.loads(run_tensight(tmp_path, "doctor", "--json").stdout)["checks"]}
    assert checks["torch"]["state"] == "ok"
    assert checks["native kernel"]["state"] in ("ok", "limited")
    assert "page" in checks
