"""What somebody who knows only the documented words meets: scripts that move, names of calls and conditions."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import psutil
import pytest

import tensight
from tensight.errors import NameNotFound
from tensight.session import afterwards
from tests.cli import programs

Ran = CompletedProcess[str]
Tensight = Callable[..., Ran]

TWICE = """
import torch
from torch import nn
torch.manual_seed(0)
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.once = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.once(self.mix(self.mix(x)))
model = Twice()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""

SPECIAL = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.spectrum, self.plain = nn.Linear(2, 2), nn.Identity(), nn.Identity()
    def forward(self, x):
        self.spectrum(torch.tensor([1 + 5j, 0 + 0j, -3 + 0j]))
        self.plain(torch.tensor([1.0, 5.0, 0.0, 0.0, -3.0, 0.0]))
        return self.scale(x)
net = Net()
for step in range(2):
    net(torch.ones(1, 2))
"""


def written(folder: Path, text: str, name: str = "train.py") -> Path:
    (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.cli.conftest import tensight as run

    folder = written(tmp_path_factory.mktemp("twice"), TWICE)
    words = ["run", "--no-page", "--steps", "1", "--report", "report.json", "--watch", "TL(max_gt=-9) on output"]
    ran = run(folder, *words, "train.py")
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.parametrize("given", [[], ["--run-dir", "there"]])
@pytest.mark.parametrize("early", [True, False], ids=["before training", "after training"])
def test_a_script_that_changes_its_directory_is_recorded_where_it_was_started(
    given: list[str], early: bool, tmp_path: Path, run_tensight: Tensight
) -> None:
    moves = "import os; os.makedirs('work', exist_ok=True); os.chdir('work'); open('mine', 'w').close()\n"
    written(tmp_path, moves + programs.HEALTHY if early else programs.HEALTHY + moves)
    ran = run_tensight(tmp_path, "run", "--no-page", *given, "--report", "report.json", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["mine"]
    folder = given[1] if given else "runs/train-1"
    assert f"recorded in {folder}; see it again: tensight view {folder}\n" in ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["run"]["steps"], report["run"]["ended"]) == (30, "finished")
    assert tensight.open(tmp_path / folder).step_count == 30
    assert (tmp_path / report["run"]["dir"]).samefile(tmp_path / folder)


def test_a_script_that_changes_its_directory_and_fails_leaves_its_report(
    tmp_path: Path, run_tensight: Tensight
) -> None:
    written(tmp_path, "import os; os.makedirs('work'); os.chdir('work')\n" + programs.CRASH)
    ran = run_tensight(tmp_path, "run", "--no-page", "--report", "report.json", "train.py")
    assert ran.returncode == 1
    assert json.loads((tmp_path / "report.json").read_text())["run"]["ended"] == "failed"


@pytest.mark.parametrize("end", ["os._exit(9)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os.abort()"])
def test_a_run_that_is_killed_has_its_report(end: str, tmp_path: Path, run_tensight: Tensight) -> None:
    written(tmp_path, f"{TWICE}\nimport os, sys; os.chdir('/'); {end}\n")
    report = tmp_path / "report.json"
    report.write_text("of an earlier run")
    ran = run_tensight(tmp_path, "run", "--no-page", "--report", "report.json", "train.py")
    assert ran.returncode in (9, -9, -15, -6)
    run = json.loads(report.read_text())["run"]
    assert (run["steps"], run["ended"], run["script_exit"]) == (3, "killed", None)


def test_who_waits_for_the_end_of_a_run_goes_when_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    called_off = afterwards.attend(tmp_path, tmp_path / "report.json", ())
    (own,) = waiting(tmp_path)
    assert os.getpid() not in parents(own)
    called_off()
    wait_until(lambda: not waiting(tmp_path))
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize(("end", "code"), [("sys.exit(True)", 1), ("sys.exit(-1)", 255), ("sys.exit(256)", 0)])
def test_the_report_holds_the_exit_code_that_the_shell_sees(
    end: str, code: int, tmp_path: Path, run_tensight: Tensight
) -> None:
    written(tmp_path, f"{TWICE}\nimport sys; {end}\n")
    ran = run_tensight(tmp_path, "run", "--no-page", "--report", "report.json", "train.py")
    assert ran.returncode == code
    run = json.loads((tmp_path / "report.json").read_text())["run"]
    assert (run["script_exit"], run["ended"]) == (code, "failed" if code else "finished")


def test_calls_of_a_module_that_is_called_several_times_have_names(twice: Path) -> None:
    report = json.loads((twice / "report.json").read_text())
    seen = [hit["node"] for hit in report["hits"] if hit["step"] == 1]
    assert seen == ["mix#0", "mix#1", "once", ""]
    run = tensight.open(twice / "runs" / "train-1")
    first, second = (run.tensor(f"mix#{call}", "output", step=1).numpy() for call in (0, 1))
    assert np.array_equal(first, run.tensor("mix", "output", step=1).numpy())
    assert not np.array_equal(first, second)


def test_hits_are_asked_for_by_code_and_by_name(twice: Path) -> None:
    hits = tensight.open(twice / "runs" / "train-1").hits
    assert len(hits.where(condition="TL")) == 12
    for name in ("tensor_too_large", "TensorTooLarge", "tl"):
        assert list(hits.where(condition=name)) == list(hits.where(condition="TL"))
    assert len(hits.where(condition="tensor_overflow")) == len(hits.where(condition="no such condition")) == 0


def test_the_gradient_of_a_parameter_is_asked_for_by_its_path(twice: Path) -> None:
    run = tensight.open(twice / "runs" / "train-1")
    gradient = run.tensor("mix.weight", "gradient", step=1)
    assert gradient.info.kind == "gradient"
    assert np.array_equal(gradient.numpy(), run.tensor("mix", "weight.grad", step=1).numpy())
    assert run.tensor("mix.bias", "weight", step=1).info.slot == "bias"
    with pytest.raises(NameNotFound, match="no tensor gradient of mix"):
        run.tensor("mix", "gradient", step=1)


def test_ranges_are_judged_on_what_was_recorded_or_said_not_to_be(tmp_path: Path, run_tensight: Tensight) -> None:
    written(tmp_path, SPECIAL)
    for name, more in (("kept", ["--steps", "0-1"]), ("bare", [])):
        ran = run_tensight(tmp_path, "run", "--no-page", "--no-recommended", "--run-dir", name, *more, "train.py")
        assert ran.returncode == 0, ran.stderr
    half = tensight.TensorRange(range_percentage_gt=40, range_start_inclusive=0, range_end_inclusive=0)
    all_inside = tensight.TensorRange(range_percentage_gt=99, range_start_inclusive=-3, range_end_inclusive=5)
    none_inside = tensight.TensorRange(range_percentage_lt=1, range_start_inclusive=6, range_end_inclusive=7)
    kept, bare = tensight.open(tmp_path / "kept"), tensight.open(tmp_path / "bare")
    for node in ("spectrum", "plain"):  # a complex tensor counts by its real and imaginary parts
        on = f"output:{node}"
        assert [hit.actual for hit in kept.check(half, nodes=on)] == [{"range_percentage_gt": 50.0}] * 2
        assert {hit.error for hit in bare.check(half, nodes=on)} == {"no_value"}
        for decided in (all_inside, none_inside):  # the smallest and the largest value tell
            assert [hit.error for hit in bare.check(decided, nodes=on)] == [None, None]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def waiting(folder: Path) -> list[psutil.Process]:
    """Processes that wait for the end of a run in this folder."""
    return [one for one in psutil.process_iter() if afterwards.__file__ in _command(one) and one.cwd() == str(folder)]


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def parents(process: psutil.Process) -> list[int]:
    return [one.pid for one in process.parents()]


def test_a_note_is_written_by_a_shell(tmp_path: Path, run_tensight: Tensight) -> None:
    written(tmp_path, programs.CRASH)
    note = shlex.quote(str(tmp_path / "my note"))
    run_tensight(tmp_path, "run", "--no-page", "--notify", f"cat >> {note}; echo ' told' >> {note}", "train.py")
    wait_until(lambda: (tmp_path / "my note").exists() and "told" in (tmp_path / "my note").read_text())
    assert json.loads((tmp_path / "my note").read_text().removesuffix(" told\n"))["what"] == "crash"
