"""`tensight profile` as a user starts it, on real trainings."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tensight.cli import main
from tensight.profiling import Reading, files
from tensight.profiling.trace import summarise
from tensight.records.timing import PARTS
from tensight.runs import open_run
from tests.profiling.slow import FAULTS, PROGRAMS, SEVERAL, marked

LONG = 800
pytestmark = pytest.mark.timeout(1000)
FULL = bool(os.environ.get("TENSIGHT_FULL"))
# those whose advice rests on counts and not on the clock
LIVE = ["float64"] if not FULL else [name for name in FAULTS if name not in SEVERAL]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=LONG, check=False, env=environment
    )


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, str]:
    """A profile of a program that asks for the garbage collector in every step."""
    place = tmp_path_factory.mktemp("profile")
    options = ["--steps", "6", "--warm-up", "2", "--trace-steps", "3", "--run-dir", "out", "--report", "report.json"]
    done = run("-m", "tensight", "profile", *options, str(PROGRAMS / "collector.py"), cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "out", json.loads((place / "report.json").read_text()), done.stdout


def test_the_report_has_the_split_and_findings_of_category_resource(taken):
    folder, report, _ = taken
    assert set(report["split"]) == set(PARTS)
    assert sum(report["split"].values()) == pytest.approx(report["step_seconds"])
    assert report["run"]["ended"] == "finished"
    first = report["findings"][0]
    assert (first["fault"], first["category"]) == ("garbage_collection", "resource")
    assert first["where"]["line"] == marked("collector")
    assert first["where"]["code"].startswith("gc.collect()")
    assert report["profile"]["own_seconds"] > 0
    assert open_run(folder).findings[0].fault == "garbage_collection"


def test_the_terminal_shows_parts_operators_lines_and_advice(taken):
    printed = taken[2]
    for word in (
        "a step takes",
        *PARTS,
        "aten::",
        "collector.py",
        "garbage collector",
        "measuring took",
        "processors busy",
        "GFLOP/s, ",
    ):
        assert word in printed
    assert "STAGE:" not in printed


def test_the_trace_is_for_other_tools_and_read_by_us(taken):
    found = summarise(files.trace_file(taken[0]))
    assert len(found.steps) == 3
    assert any(name.startswith("aten::") for _, name in found.rows)


def test_a_profile_is_shown_again_and_beside_another(taken, capsys: pytest.CaptureFixture[str]):
    folder = str(taken[0])
    main(["profile", "--show", folder])
    assert "garbage collector" in capsys.readouterr().out
    main(["profile", "--show", folder, "--json"])
    assert json.loads(capsys.readouterr().out)["split"] == taken[1]["split"]
    main(["profile", "--show", folder, "--against", folder])
    assert "backward" in capsys.readouterr().out


def test_modules_memory_and_timeline_are_there(taken):
    profile = files.need(taken[0])[0]
    paths = {module.path for module in profile.modules}
    assert {"", "0", "2", "4"} <= paths
    whole = next(module for module in profile.modules if module.path == "")
    assert whole.forward > 0
    assert whole.backward > 0
    own = {module.path: (module.own_forward, module.own_backward) for module in profile.modules}
    assert all(seconds > 0 for seconds in own["0"])  # a layer's own time, and what it hands on to those inside
    assert sum(forward for forward, _ in own.values()) == pytest.approx(whole.forward)
    assert sum(backward for _, backward in own.values()) == pytest.approx(whole.backward)
    assert profile.memory.peak > 0
    assert profile.memory.owners
    assert {span.kind for span in profile.spans} == {"step", "part", "operator"}
    assert Reading(profile).flops > 0
    assert 0 < (Reading(profile).utilisation or 0) < 2  # of what a large matrix product reaches here
    assert {span.name for span in profile.spans if span.kind == "part"} == {"forward", "backward", "update"}


def test_split_and_operators_agree_with_torch_profilers_own_sums(tmp_path: Path):
    apart: dict[str, float] = {}
    for _ in range(3):  # a busy machine may stop the program between two looks at the clock
        done = run(str(PROGRAMS / "agree.py"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["missing"] == []
        assert found["all"][0] == pytest.approx(found["all"][1], rel=0.02)
        for name, (ours, theirs, calls, count) in found["operators"].items():
            assert calls == count, name
            assert ours == pytest.approx(theirs, rel=0.02, abs=2e-5), name
        assert all(len(ours) == len(theirs) == 6 for ours, theirs in found["parts"].values())
        ratios = {
            part: statistics.median(one / other for one, other in zip(ours, theirs))
            for part, (ours, theirs) in found["parts"].items()
        }
        assert set(ratios) == {"data", "forward", "backward", "update"}
        apart = {part: ratio for part, ratio in ratios.items() if ratio != pytest.approx(1, abs=0.02)}
        if not apart:
            break
    assert apart == {}


def test_the_training_is_bitwise_the_same(tmp_path: Path):
    script = str(PROGRAMS / "same.py")
    plain = run(script, cwd=tmp_path)
    profiled = run("-m", "tensight", "profile", "--go-on", "--steps", "4", "--warm-up", "1", script, cwd=tmp_path)
    assert profiled.returncode == 0, profiled.stderr
    (bits,) = [line for line in plain.stderr.splitlines() if line.startswith("bits")]
    assert bits.endswith(" 32")
    assert bits in profiled.stderr


@pytest.mark.parametrize("name", LIVE)
def test_advice_in_a_living_training(name: str, tmp_path: Path):
    options = ["--json", "--run-dir", "out", *([] if FULL else ["--steps", "4", "--warm-up", "1"])]
    done = run("-m", "tensight", "profile", *options, str(PROGRAMS / f"{name}.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert FAULTS[name] in [one["fault"] for one in findings]
    (mine,) = [one for one in findings if one["fault"] == FAULTS[name]]
    assert mine["where"]["line"] == marked(name)


def test_mindspore_is_profiled_too(tmp_path: Path):
    options = ["--json", "--steps", "3", "--warm-up", "1", "--trace-steps", "2", "--run-dir", "out"]
    done = run("-m", "tensight", "profile", *options, str(PROGRAMS / "mindspore_eager.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["run"]["framework"] == "mindspore"
    assert all(report["split"][part] > 0 for part in ("data", "forward", "backward", "update"))
    names = {one["name"] for one in report["profile"]["operators"]}
    assert "MatMul" in names
    profile = files.need(tmp_path / "out")[0]
    modules = {(one.path, one.type): one for one in profile.modules}
    assert {("", "SequentialCell"), ("0", "Dense"), ("1", "ReLU"), ("2", "Dense")} <= set(modules)
    whole = modules["", "SequentialCell"]
    inner = sum(one.forward for (path, _), one in modules.items() if path in ("0", "1", "2"))
    assert whole.forward >= inner > 0
    assert whole.calls == modules["0", "Dense"].calls == profile.facts["located_steps"] > 0
    assert profile.loaders[0].batches > 0
    assert "eager_mode" in [one["fault"] for one in report["findings"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["profile"], "name a script"),
        (["profile", "none.py"], "there is no such script"),
        (["profile", "--report", "no/where.json", __file__], "does not exist"),
        (["profile", "--show", "none"], "holds no profile"),
        (["profile", "--trace", "none.json"], "no such trace"),
    ],
)
def test_wrong_use_is_one_sentence(words, says, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_a_script_that_fails_passes_its_exit_code_on(tmp_path: Path):
    (tmp_path / "bad.py").write_text("raise SystemExit(7)\n")
    done = run("-m", "tensight", "profile", "bad.py", cwd=tmp_path)
    assert done.returncode == 7
    assert "no step was made" in done.stdout
