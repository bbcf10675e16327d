"""What commands print for people: whole words, true last words, one sentence for what is wrong."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save_file

from tensight.capture.coverage import CoverageKeeper, coverage_line, step_check_line
from tensight.cli import COMMANDS
from tensight.cli.check import _actual, _count, _tensor
from tensight.cli.printing import print_table
from tensight.records import (
    Change,
    Coverage,
    Event,
    Finding,
    Hit,
    Network,
    Observation,
    Parameter,
    Stats,
    StepRecord,
    TensorInfo,
    Where,
)
from tensight.runs.blocks import finding_block
from tensight.runs.findings import Findings
from tensight.session.crashing import crash_of
from tests.cli.calling import called

Ran = subprocess.CompletedProcess[str]
Tensight = Callable[..., Ran]


def test_a_table_is_not_broken_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "encoder.layers.11.attention.output.dense.weight" * 4
    print_table(("name", "none", "shape"), [(name, "", "8x8"), ("b", "", "4")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == [name, "8x8"]
    assert lines[0].split() == ["name", "shape"]  # a column that nothing fills is left out


def test_a_table_keeps_to_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    print_table(("name",), [("word " * 30,)])
    assert max(map(len, screen.getvalue().splitlines()[1:])) <= 40  # the heading is bold


@pytest.mark.parametrize("words", [[], ["ckpt"]], ids=["tensight", "ckpt"])
def test_without_a_command_there_is_help_and_no_error_before_it(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, err, code = called(words, capsys)
    assert (out + err).startswith("Usage: tensight")
    assert code in (0, 2)  # by the version of click


def test_no_line_of_the_list_of_commands_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["ckpt", "--help"]):
        out, _, _ = called(words, capsys)
        listed = out.partition("Commands:")[2].strip().splitlines()
        assert len(listed) == (len(COMMANDS) if words == ["--help"] else 3)
        assert [line for line in listed if line.rstrip().endswith("...")] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["explain", "note.txt"],
            "tensight: note.txt is a file, not a run: name a folder that `tensight run` has made",
        ),
        (["view", "nowhere"], "tensight: there is no folder nowhere; name a run, or a folder of runs"),
        (["view", "note.txt"], "tensight: note.txt is a file, not a run: name a run, or a folder of runs"),
        (["nosuch"], "tensight: No such command 'nosuch'. `tensight --help` lists them"),
        (["run", "--budget", "low", "a.py"], "Invalid value for '--budget': 'low' is not a number."),
        (["preflight", "--steps", "x", "a.py"], "Invalid value for '--steps': 'x' is not a whole number."),
        (["tune", "nowhere.yaml"], "tensight: nowhere.yaml: cannot be read: No such file or directory"),
        (["tune", "cut.yaml"], "cut.yaml: is not YAML: line 2: expected the node content, but found '<stream end>'"),
        (["run", "."], "tensight: .: is a folder; give a path to a Python file"),
        (["run", "--report", ".", "a.py"], "tensight: --report .: is a folder; name a file"),
        (
            ["run", "-m", "nowhere.train"],
            "-m nowhere.train: there is no such module here; a script is named without -m",
        ),
        (["run", "--server", "x", "a.py"], "a server is given as HOST:PORT, for example 127.0.0.1:8765, not 'x'"),
        (["run", "--run-dir", "a.py/b", "a.py"], "recorded in a.py/b: Not a directory; give another --run-dir"),
        (["profile"], "tensight: name a script, e.g. `tensight profile train.py`, or a module with -m"),
        (["params", "crash.py"], "crash.py: the script failed before a model was called: ValueError: too early"),
        (
            ["params", "note.txt"],
            "note.txt is no run, no checkpoint that is known here and no script, which ends in .py",
        ),
        (
            ["params", "code.pt"],
            "checkpoint: its beginning is that of none of them",
        ),
        (["run"], "tensight: name a script, e.g. `tensight run train.py`, or a module with -m"),
        (
            ["run", "--watch", "TOO on weight:*", "a.py"],
            "there is no condition 'TOO': did you mean TO (tensor_overflow)?",
        ),
        (
            ["run", "--watch", "TO on gradent:*", "a.py"],
            "there is no kind 'gradent' of tensors in 'gradent:*': did you mean 'gradient'?",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_named_as_the_user_wrote_it(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "a.py").write_text("")
    (tmp_path / "cut.yaml").write_text("{\n")
    (tmp_path / "crash.py").write_text("raise ValueError('too early')")
    for name in ("note.txt", "code.pt"):  # no command may run what is not called a script
        (tmp_path / name).write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    _, err, code = called(words, capsys)
    assert not (tmp_path / "ran").exists()
    assert code == 2
    assert err.strip().endswith(sentence)


def test_a_title_is_cut_between_words_where_a_terminal_ends() -> None:
    title = "softmax is applied twice: cross_entropy gets probabilities instead of logits"
    finding = Finding("softmax_twice", "loss", title, 1.0, 0, Where(), "because", replay="exact")
    shown = finding_block(finding, columns=80).splitlines()
    assert shown[:2] == [f"✖ step 0  {title.removesuffix(' logits')}", "  logits  rewound, looked again"]
    assert title in finding_block(finding).splitlines()[0], "a file or a pipe has no edge"


def test_the_last_words_after_a_crash_do_not_say_that_all_is_well(
    crash: tuple[Path, Ran], run_tensight: Tensight
) -> None:
    folder, ran = crash
    assert "30 steps, then the script failed" in ran.stderr
    assert "nothing was found wrong" not in ran.stderr
    assert "nothing else was found wrong" in run_tensight(folder, "explain", "runs/train-1").stdout


def test_the_second_way_to_mend_it_is_not_introduced_twice() -> None:
    finding = Finding("x", "y", "t", 1.0, 0, Where(), "why", fix=("lower it", "or warm it up", "clip"))
    rows = [line.split() for line in finding_block(finding).splitlines()]
    assert ["or", "warm", "it", "up"] in rows
    assert ["or", "clip"] in rows
    assert str(Findings([finding])) == finding_block(finding)  # what print says of all of them
    assert Findings([finding]) == [finding]
    assert (str(Findings([])), Findings([]) == []) == ("no findings", True)


def test_a_loss_without_a_function_is_named_as_what_it_is() -> None:
    assert "a loss written out as an expression" in coverage_line(Coverage(losses=("expression",)))
    assert "cross_entropy" in coverage_line(Coverage(losses=("cross_entropy",)))


@pytest.mark.parametrize(
    ("rate", "skipped", "said"),
    [
        (0.0, False, "0 of 1 trainable parameters changed: its learning rate is 0"),
        (
            0.1,
            True,
            "0 of 1 trainable parameters changed: the gradients overflowed, so the scaler skipped this step",
        ),
        (0.1, False, "0 of 1 trainable parameters changed"),
    ],
)
def test_a_first_step_that_changes_nothing_says_why_where_that_is_usual(rate: float, skipped: bool, said: str) -> None:
    networks = [Network("net", "Net", parameters=(Parameter("weight", (3,), "float32", True),))]
    event = Event("optimizer_step", part="SGD", values={"lr": rate, **({"skipped": True} if skipped else {})})
    record = StepRecord(0, 0.0, 0.1, loss=1.5, scalars={"lr": rate}, events=(event,))
    assert step_check_line(record, {}, networks).endswith(said)


def test_the_parameters_that_a_first_step_leaves_as_they_were_are_named() -> None:
    names = [f"block.{number}.bias" for number in range(5)]
    networks = [Network("net", "Net", parameters=tuple(Parameter(name, (3,), "float32", True) for name in names))]
    tensors = {
        number: TensorInfo(number, "weight", name.rpartition(".")[0], "bias", "net")
        for number, name in enumerate(names)
    }

    def said(changed: set[int]) -> str:
        seen = []
        for number in tensors:
            equal = 0 if number in changed else 3
            seen.append(Observation(number, 0, Stats(count=3, change=Change(3, 0.1, 0.1, 1.0, 3 - equal, equal))))
        record = StepRecord(0, 0.0, 0.1, loss=1.5, observations=tuple(seen))
        return step_check_line(record, tensors, networks).partition("loss 1.5, ")[2]

    assert said(set(tensors)) == "5 of 5 trainable parameters changed"
    assert said({0, 1, 2, 4}) == "4 of 5 trainable parameters changed, not block.3.bias"
    assert said({4}) == "1 of 5 trainable parameters changed, not block.0.bias, block.1.bias, block.2.bias and 1 more"


def test_a_gradient_that_no_loss_asks_for_is_no_tensor_that_is_left_out() -> None:
    """The state of a recurrent layer that nothing uses; an output that is not observed is still counted."""
    kinds = ("output", "output_gradient", "output")
    tensors = {number: TensorInfo(number, kind, "rnn", "output.0") for number, kind in enumerate(kinds)}
    coverage = CoverageKeeper().coverage(tensors, {0})
    assert (coverage.watched, coverage.tensors) == (1, 2)


def test_hits_stand_beside_their_limits_and_what_was_not_judged_is_counted_apart() -> None:
    hit = Hit(
        0,
        1,
        "w",
        "TL",
        "gradient",
        "fc",
        "weight",
        7,
        actual={"max_gt": 2.5, "nan": 1.0},
        threshold={"max_gt": 1.0, "epsilon": 1e-9},
    )
    blind = msgspec.structs.replace(hit, actual={}, error="nan")
    assert _tensor(hit) == "fc.weight"
    assert _tensor(msgspec.structs.replace(hit, node="", slot="output.0", op="aten.mm")) == "output.0 (aten.mm)"
    assert _actual(hit) == "max_gt=2.5 (1)  nan=1"
    assert _count([hit], 50) == "1 hit"
    assert _count([hit, hit, blind], 2).startswith("2 hits, and 1 could not be judged; the first 2")


def test_a_value_that_became_nan_is_not_shown_as_a_change_of_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    weight = np.ones((2, 3), np.float32)
    save_file({"fc.weight": weight}, "a.safetensors")
    weight[0, 0] = np.nan
    save_file({"fc.weight": weight}, "b.safetensors")
    out, _, _ = called(["ckpt", "diff", "a.safetensors", "b.safetensors"], capsys)
    assert "and 1 value NaN or Inf in one of them alone" in out
    out, _, _ = called(["compare", "a.safetensors", "b.safetensors"], capsys)
    assert "NaN or Inf in B alone" in out
    assert "step 0" not in out  # a checkpoint has none


def test_parameters_of_a_checkpoint_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_file({"fc.weight": np.ones((2, 3), np.float32), "fc.bias": np.ones(2, np.float32)}, "a.safetensors")
    out, _, _ = called(["params", "a.safetensors"], capsys)
    head, *rows, last = out.splitlines()
    assert head == "network        name       shape  dtype    count"
    assert sorted(rows) == [
        "a.safetensors  fc.bias    2      float32  2",
        "a.safetensors  fc.weight  2x3    float32  6",
    ]
    assert last == "8 values; the file does not say which of them are trained"
    _, err, code = called(["params", "a.safetensors", "--lr"], capsys)
    assert (code, "--lr: a checkpoint stands alone" in err) == (2, True)


def test_parameters_are_listed_with_buffers_apart(tmp_path: Path, run_tensight: Tensight) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))\n"
        "net[0].bias.requires_grad_(False)\nnet(torch.ones(4, 2)).sum().backward()\n"
    )
    out = run_tensight(tmp_path, "params", "train.py").stdout
    rows = {line.split()[1]: line.split()[2:] for line in out.splitlines()[1:-1]}
    assert rows["0.weight"] == ["3x2", "float32", "6", "yes"]
    assert rows["0.bias"][-1] == "no"
    assert rows["1.running_var"] == ["3", "float32", "3", "buffer"]
    assert out.splitlines()[-1] == "15 parameters, 12 trainable; 7 values in buffers"
    (tmp_path / "tied.py").write_text(
        "import torch\nnet = torch.nn.Sequential(*(torch.nn.Linear(2, 2, bias=False) for _ in range(2)))\n"
        "net[1].weight = net[0].weight\nnet(torch.ones(4, 2)).sum().backward()\n"
    )
    lines = run_tensight(tmp_path, "params", "tied.py").stdout.splitlines()
    assert (lines[0].endswith("tied to"), lines[2].split()[-1]) == (True, "0.weight")
    assert lines[-1] == "4 parameters, 4 trainable; 0 values in buffers"


def test_without_torch_a_demo_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    _, err, code = called(["demo", "--no-page"], capsys)
    assert (err, code) == ("tensight: a demo needs PyTorch: pip install 'tensight[torch]'\n", 2)
    assert not list(tmp_path.iterdir())


def test_a_missing_module_is_told_how_to_install_it() -> None:
    block = crash_of(ModuleNotFoundError("No module named 'sklearn.metrics'"))
    assert block["fix"][0] == "install it in the same Python: python -m pip install scikit-learn"
    assert crash_of(ModuleNotFoundError("gone"))["fix"] == []
