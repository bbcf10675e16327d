"""Searches from end to end, with real processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import optuna
import pytest

from tensight.errors import UsageError
from tensight.records.search import Search
from tensight.runs import open_run
from tensight.store import is_run
from tensight.tuning.config import parse
from tensight.tuning.study import Study
from tests.profiling.terminal import in_a_terminal
from tests.tuning.test_config import MINDOPTIMIZER

PROGRAMS = Path(__file__).parent / "programs"
LONG = 800
pytestmark = pytest.mark.timeout(1000)


def tune(config: Path, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tensight", "tune", str(config), *options]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=LONG, check=False)


def write(folder: Path, **keys: object) -> Path:
    path = folder / "search.yaml"
    path.write_text(json.dumps(keys))  # JSON is YAML
    return path


@pytest.fixture
def quadratic(tmp_path: Path) -> dict[str, object]:
    return {
        "command": f"python {PROGRAMS / 'quadratic.py'}",
        "parameters": {"x": "0..1.0", "y": [1, 2, 3]},
        "minimize": "error",
        "seed": 1,
        "pruner": "none",
    }


def test_a_search_finds_the_best_and_says_how_to_run_it(tmp_path: Path, quadratic):
    done = tune(write(tmp_path, **quadratic, trials=6), "--workers", "2", "--folder", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    search = json.loads(done.stdout)
    assert [trial["state"] for trial in search["trials"]] == ["complete"] * 6
    values = [trial["value"] for trial in search["trials"]]
    assert search["trials"][search["best"]]["value"] == min(values)
    best = search["trials"][search["best"]]["values"]
    assert f'"x": {best["x"]}' in search["best_command"]
    assert all(len(trial["reports"]) == 5 for trial in search["trials"])
    assert set(search["importance"]) == {"x", "y"}
    assert sum(search["importance"].values()) == pytest.approx(1)
    kept = msgspec.json.decode((tmp_path / "found" / "search.json").read_bytes(), type=Search)
    assert (kept.state, kept.best) == ("finished", search["best"])


def test_the_journal_is_optunas_own(tmp_path: Path, quadratic):
    done = tune(write(tmp_path, **quadratic, trials=2), "--folder", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best" in done.stdout
    assert "optuna-dashboard" in done.stdout
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "found" / "journal.log"))
    study = optuna.load_study(study_name="search", storage=optuna.storages.JournalStorage(backend))
    assert len(study.trials) == 2


def test_one_database_serves_searches_in_several_places(tmp_path: Path, quadratic):
    config = write(tmp_path, **quadratic, storage="sqlite:///studies.db")
    first = tune(config, "--trials", "2", "--workers", "2", "--folder", "node-1", "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    second = tune(config, "--trials", "3", "--folder", "node-2", "--json", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert [trial["state"] for trial in json.loads(second.stdout)["trials"]] == ["complete"] * 3
    assert [place.name for place in sorted((tmp_path / "node-2").glob("trial-*"))] == ["trial-2"]
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'studies.db'}")
    assert len(study.trials) == 3


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ("nonsense", "is no address of a database"),
        ("sqlite:////no/such/place/studies.db", "cannot be opened"),
        ("odd://me:secret@127.0.0.1/x", "odd://me:***@127.0.0.1/x"),
    ],
)
def test_a_database_that_is_not_there_is_said_without_its_password(tmp_path: Path, quadratic, storage, says):
    config = parse({**quadratic, "storage": storage})
    with pytest.raises(UsageError) as error:
        Study(config, tmp_path / "found")
    assert says in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"), [({"maximize": "error"}, "begun to minimize"), ({"parameters": {"y": [7]}}, "other parameters")]
)
def test_a_search_does_not_go_on_as_another_one(tmp_path: Path, quadratic, change, says):
    Study(parse({**quadratic, "trials": 1}), tmp_path / "found").run()
    if "maximize" in change:
        del quadratic["minimize"]
    with pytest.raises(UsageError, match=says):
        Study(parse({**quadratic, **change}), tmp_path / "found").run()


class Reporting:
    """A trial that runs and has said how it goes."""

    def __init__(self, *reports: tuple[int, float]) -> None:
        self._reports = list(reports)

    def reports(self) -> list[tuple[int, float]]:
        return self._reports


def test_a_trial_that_is_worse_than_others_were_there_is_pruned_by_its_value(tmp_path: Path, quadratic):
    study = Study(parse({**quadratic, "pruner": "median"}), tmp_path / "found")
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        trial = study.study.ask()
        trial.report(value, 0)
        study.study.tell(trial, value)
    assert study._compare(study.study.ask(), Reporting((0, 0.5))) == ""
    assert "9 at step 0 is worse than other trials" in study._compare(study.study.ask(), Reporting((0, 9.0)))
    assert "error is nan at step 0" in study._compare(study.study.ask(), Reporting((0, float("nan"))))


def test_a_terminal_sees_a_bar_and_the_best_so_far(tmp_path: Path, quadratic):
    config = write(tmp_path, **quadratic, trials=2)
    code, shown = in_a_terminal("tune", str(config), "--folder", "found", cwd=tmp_path)
    assert code == 0, shown
    assert "trials" in shown
    assert "2/2" in shown
    assert "best error" in shown


def test_a_failed_trial_does_not_end_the_search_and_it_can_be_resumed(tmp_path: Path, quadratic):
    quadratic["command"] = f"{quadratic['command']} --fail-above 0.5"
    quadratic["parameters"] = {"x": [0.2, 0.9], "y": [2]}
    quadratic["sampler"] = "grid"
    config = write(tmp_path, **quadratic, trials=1)
    first = tune(config, "--folder", "found", "--json", cwd=tmp_path)
    second = tune(config, "--resume", "found", "--trials", "2", "--json", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert len(json.loads(first.stdout)["trials"]) == 1
    trials = json.loads(second.stdout)["trials"]
    assert sorted(trial["state"] for trial in trials) == ["complete", "failed"]
    (failed,) = [trial for trial in trials if trial["state"] == "failed"]
    assert "exit code 1" in failed["reason"]
    assert "forbidden" in failed["reason"]
    assert failed["values"]["x"] == 0.9


def test_the_seeds_example_runs_as_it_is(tmp_path: Path):
    shutil.copy(PROGRAMS / "seed_example.py", tmp_path / "train.py")
    config = tmp_path / "config.yaml"
    config.write_text(MINDOPTIMIZER.format(script="train.py", base=tmp_path / "summaries"))
    done = tune(config, "--iter", "2", "--folder", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    search = json.loads(done.stdout)
    for trial in search["trials"]:
        rate, size = trial["values"]["learning_rate"], trial["values"]["batch_size"]
        assert trial["value"] == pytest.approx(1 - abs(rate - 0.03) - abs(size - 64) / 1000)
        assert round(rate, 4) == rate
        assert size in (32, 64, 128)
    assert search["goal"] == "maximize"


def test_a_metric_that_only_the_summary_holds_is_the_result(tmp_path: Path):
    shutil.copy(PROGRAMS / "seed_mindspore.py", tmp_path / "train.py")
    config = tmp_path / "config.yaml"
    config.write_text(MINDOPTIMIZER.format(script="train.py", base="./summaries"))
    done = tune(config, "--iter", "2", "--folder", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for trial in json.loads(done.stdout)["trials"]:
        assert trial["state"] == "complete", trial
        assert 0.5 < trial["value"] <= 1
        assert "Accuracy" not in (tmp_path / "found" / f"trial-{trial['number']}" / "output.log").read_text()


def test_a_pattern_finds_the_last_number_and_passes_over_lines_without_one(tmp_path: Path):
    (tmp_path / "train.py").write_text("print('score 3'); print('Score 5'); print('no score today')")
    keys = {"command": "python train.py", "parameters": {"x": "0..1.0"}, "maximize": "accuracy", "trials": 1}
    path = write(tmp_path, **keys, pattern=r"\bscore (\d)|no score")
    done = tune(path, "--folder", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [trial["value"] for trial in json.loads(done.stdout)["trials"]] == [5.0]


def test_a_trial_that_blows_up_is_pruned_by_its_finding_and_each_trial_is_a_run(tmp_path: Path):
    config = write(
        tmp_path,
        command=f"python {PROGRAMS / 'training.py'} --lr {{lr}} --steps 400",
        parameters={"lr": [0.05, 1e12]},
        sampler="grid",
        trials=2,
        seed=0,
    )
    done = tune(config, "--folder", "found", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    search = json.loads(done.stdout)
    by_rate = {trial["values"]["lr"]: trial for trial in search["trials"]}
    assert by_rate[0.05]["state"] == "complete"
    assert by_rate[0.05]["value"] < 1
    assert by_rate[1e12]["state"] == "pruned", by_rate[1e12]
    hopeless = open_run(tmp_path / "found" / f"trial-{by_rate[1e12]['number']}")
    assert hopeless.ended == "stopped"  # by itself, in the step of the finding
    assert by_rate[1e12]["reason"].startswith(hopeless.findings[0].fault)
    assert hopeless.step_count < 100
    assert search["best_command"].endswith("--lr 0.05 --steps 400")
    for trial in search["trials"]:
        folder = tmp_path / "found" / f"trial-{trial['number']}"
        assert is_run(folder)
        assert open_run(folder).step_count > 0


def test_without_values_the_script_is_told_what_to_do(tmp_path: Path):
    words = [sys.executable, str(PROGRAMS / "quadratic.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 1
    assert "tensight tune CONFIG.yaml" in done.stderr


def test_a_result_that_is_never_told_is_a_failure_with_advice(tmp_path: Path, quadratic):
    quadratic["command"] = "true"
    done = tune(write(tmp_path, **quadratic, trials=1), "--folder", "found", cwd=tmp_path)
    assert done.returncode == 1
    assert "tensight.tuning.report" in done.stdout


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path, quadratic):
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "something").write_text("")
    done = tune(write(tmp_path, **quadratic), "--folder", "found", cwd=tmp_path)
    assert done.returncode == 2
    assert "--resume found" in done.stderr


def test_ctrl_c_ends_the_trials_and_says_how_to_go_on(tmp_path: Path):
    marker = tmp_path / "pid"
    config = write(
        tmp_path,
        command=f"python {PROGRAMS / 'forever.py'} {marker}",
        parameters={"x": "0..1.0"},
        minimize="error",
        trials=1,
    )
    words = [sys.executable, "-m", "tensight", "tune", str(config), "--folder", "found"]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background jobs ignore Ctrl-C, and so would what they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_until(lambda: marker.exists() and marker.read_text() != "")
        trial = int(marker.read_text())
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LONG)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "--resume found" in told
    wait_until(lambda: not Path(f"/proc/{trial}").exists())
    kept = msgspec.json.decode((tmp_path / "found" / "search.json").read_bytes(), type=Search)
    assert (kept.state, kept.trials[0].state) == ("stopped", "failed")


def wait_until(true: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
