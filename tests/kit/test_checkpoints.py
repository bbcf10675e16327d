"""Checkpoints are whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensight.cli import main
from tensight.errors import CallbackError, CheckpointError, UsageError
from tensight.kit import (
    Callback,
    CheckpointConfig,
    Model,
    ModelCheckpoint,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from tensight.kit.callbacks.checkpoint import Background
from tests.kit.nets import FRAMEWORKS, training

both = pytest.mark.parametrize("framework", FRAMEWORKS)
KILLS = Path(__file__).parents[2] / "benchmarks" / "checkpoint_kills.py"


def train(framework: str, folder: Path, epochs: int = 2, **options: Any) -> tuple[ModelCheckpoint, Any]:
    made = training(framework)
    saving = ModelCheckpoint(directory=folder, config=CheckpointConfig(**options))
    Model(made.network, made.loss_fn, made.optimizer).train(epochs, made.data, callbacks=saving)
    return saving, made


@both
def test_two_checkpoints_of_two_steps_show_what_the_second_step_changed(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(framework, tmp_path, epochs=1, save_checkpoint_steps=1)
    first, second = sorted(tmp_path.glob("*.safetensors"))[:2]
    assert [path.stem for path in (first, second)] == ["CKP-1_1", "CKP-1_2"]
    capsys.readouterr()
    main(["ckpt", "diff", "--json", str(first), str(second)])
    found = json.loads(capsys.readouterr().out)
    before, now = load_checkpoint(first), load_checkpoint(second)
    changes = {row["name"]: row["max_abs"] for row in found["changed"]}
    assert set(changes) == set(before)
    for name, change in changes.items():
        assert change > 0
        assert change == pytest.approx(np.abs(now[name].astype("d") - before[name].astype("d")).max())
    assert found["unchanged"] == found["only_a"] == found["only_b"] == []


def values(made: Any) -> dict[str, np.ndarray]:
    if made.framework == "torch":
        return {name: value.numpy() for name, value in made.network.state_dict().items()}
    return {name: value.asnumpy() for name, value in made.network.parameters_and_names()}


@both
@pytest.mark.parametrize("format", ["safetensors", "own"])
@pytest.mark.parametrize("async_save", [False, True])
def test_the_newest_checkpoint_holds_the_weights(framework: str, format: str, async_save: bool, tmp_path: Path) -> None:
    saving, made = train(framework, tmp_path, format=framework if format == "own" else format, async_save=async_save)
    assert saving.latest == latest_checkpoint(tmp_path)
    found = load_checkpoint(saving.latest)
    for name, value in values(made).items():
        np.testing.assert_array_equal(found[name], value)
    other = training(framework, rate=0.5)
    load_checkpoint(saving.latest, other.network)
    for name, value in values(made).items():
        np.testing.assert_array_equal(values(other)[name], value)


@both
def test_steps_and_number_of_checkpoints(framework: str, tmp_path: Path) -> None:
    train(framework, tmp_path, epochs=4, save_checkpoint_steps=2, keep_checkpoint_max=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "CKP-3_2.safetensors",
        "CKP-4_1.safetensors",
        "CKP-4_3.safetensors",
    ]


def test_seconds_between_checkpoints(tmp_path: Path) -> None:
    train("torch", tmp_path, save_checkpoint_seconds=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["CKP-2_3.safetensors"]  # the last step alone


def test_one_for_every_so_many_minutes_is_kept_beside_the_newest(tmp_path: Path) -> None:
    train("torch", tmp_path, keep_checkpoint_max=1, keep_checkpoint_per_n_minutes=1e-12)
    assert len(list(tmp_path.iterdir())) == 6
    assert latest_checkpoint(tmp_path) == tmp_path / "CKP-2_3.safetensors"


class Minutes(Callback):
    """A clock that goes on by a minute in each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("tensight.kit.callbacks.checkpoint.time", SimpleNamespace(monotonic=lambda: self.now))

    def on_train_step_end(self, run_context: Any) -> None:
        self.now += 60


@both
@pytest.mark.parametrize(
    ("options", "saved"),
    [
        ({"save_checkpoint_seconds": 120}, ["1_2", "2_1", "2_3"]),  # each second minute
        ({"save_checkpoint_seconds": 240, "save_checkpoint_steps": 3}, ["1_3", "2_3"]),  # whichever comes first
        ({"keep_checkpoint_max": 1, "keep_checkpoint_per_n_minutes": 3}, ["1_2", "2_2", "2_3"]),  # the newest, and some
    ],
)
def test_checkpoints_by_the_clock(
    framework: str, options: Any, saved: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = training(framework)
    saving = ModelCheckpoint(directory=tmp_path, config=CheckpointConfig(**options))
    Model(made.network, made.loss_fn, made.optimizer).train(2, made.data, callbacks=[Minutes(monkeypatch), saving])
    assert sorted(path.stem.removeprefix("CKP-") for path in tmp_path.iterdir()) == saved


def test_a_disk_that_does_not_answer_is_given_up_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensight.kit.callbacks.checkpoint.LONGEST", 0.3)
    answers = threading.Event()
    for _ in range(2):  # the next training begins anew
        background = Background()
        background.put(lambda: answers.wait(60))
        with pytest.raises(CheckpointError, match="the disk does not answer"):
            background.wait()
        background.wait()
    answers.set()


@pytest.mark.parametrize(
    ("task", "said"),
    [("threading.Event().wait()", "the disk does not answer"), ("time.sleep(1) or print('written')", "written")],
)
def test_the_end_of_a_program_waits_for_a_checkpoint_but_not_for_ever(task: str, said: str) -> None:
    program = (
        "import threading, time\n"
        "from tensight.kit.callbacks import checkpoint\n"
        "checkpoint.LONGEST = 5.0\n"
        f"checkpoint.Background().put(lambda: {task})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert said in done.stdout + done.stderr


def test_a_second_training_leaves_the_first_ones_files(tmp_path: Path) -> None:
    train("torch", tmp_path, epochs=1)
    train("torch", tmp_path, epochs=1)
    assert sorted({path.name.partition("-")[0] for path in tmp_path.iterdir()}) == ["CKP", "CKP_1"]


def test_what_a_killed_process_left_unfinished_is_cleared_away(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = tmp_path / f".CKP-9_9.safetensors.{done.stdout.strip()}.new.safetensors"
    left.write_bytes(b"half")
    running = tmp_path / f".CKP-9_9.safetensors.{os.getpid()}.new.safetensors"
    running.write_bytes(b"half")
    train("torch", tmp_path, epochs=1)
    assert not left.exists()
    assert running.exists()


def test_of_several_ranks_the_first_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    saving, _ = train("torch", tmp_path)
    assert saving.latest is None
    assert list(tmp_path.iterdir()) == []


def test_a_disk_error_names_the_callback_and_leaves_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        path.write_bytes(b"a part")
        raise OSError("no space left on device")

    monkeypatch.setattr("tensight.kit.callbacks.checkpoint.writer", lambda *args: full)
    with pytest.raises(CallbackError, match=r"ModelCheckpoint failed in step_end .*no space left"):
        train("torch", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: CheckpointConfig(save_checkpoint_steps=-1), UsageError, "save_checkpoint_steps is -1"),
        (lambda: CheckpointConfig(format="zip"), UsageError, "format 'zip' is none of"),
        (lambda: ModelCheckpoint(prefix="a/b"), UsageError, "no prefix"),
        (lambda: load_checkpoint("nowhere.pt"), CheckpointError, "no such checkpoint"),
        (
            lambda: save_checkpoint(training("torch").network, "x.ckpt", format="mindspore"),
            UsageError,
            "saved as torch or safetensors",
        ),
    ],
)
def test_wrong_use_gets_one_sentence(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("options", [["--format", "safetensors"], ["--format", "torch", "--async-save"]])
def test_killed_at_any_moment_the_newest_file_can_be_read(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(KILLS), "--kills", "10", *options],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["unreadable"] == 0
