"""A crash of a MindSpore script gets a block: line, cell, stage, operator, why, and what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import pytest

from tensight.session.crashing import crash_of

PROGRAMS = Path(__file__).parent / "crashing"


@pytest.fixture(autouse=True)
def _leaves_no_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # the graph compiler leaves a file where it fails
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def crash(name: str) -> dict[str, Any]:
    """Run a program as a script in this process and explain the exception that leaves it."""
    path = PROGRAMS / f"{name}.py"
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    except Exception as error:
        return crash_of(error)
    raise AssertionError(f"{name} did not crash")


# program → stage, part of the line, words of title, why and fix
CASES: dict[str, tuple[str | None, str, str, str, str]] = {
    "own_code": (None, 'settings["rats"]', "KeyError", "no such key", ""),
    "dense_shape": ("forward", "self.head(", "shapes do not fit", "columns", "width of the layer"),
    "dtype_of_indices": (None, "ops.gather(", "gather", "float32 float32", "astype"),
    "unsupported_operator": (None, "ops.matmul(x, x)", "bfloat16", "kernel", "float32"),
    "backward_stage": ("backward", "undefined_name * gradient", "NameError", "not defined", ""),
    "unsupported_in_graph": (
        "compile",
        "try:",
        "try cannot be compiled",
        "PyNative mode the same",
        "beforehand with if",
    ),
    "lambda_in_graph": ("compile", "gradient(Tensor(", "lambda", "line of its own", "with def"),
    "loss_scale_on_cpu": ("forward", "step(", "overflow", "NPUGetFloatStatusV2", "DynamicLossScaler"),
    "dynamic_scale_on_cpu": (None, "ms.Model(", "loss-scale manager", "overflow", "FixedLossScaleManager"),
    "distributed": (None, "init()", "distributed training", "several ranks", "msrun"),
}


# program → what the failed call was given
GIVEN = {
    "dense_shape": ("x: float32[4, 10]", "self.weight: float32[5, 20]"),
    "dtype_of_indices": ("args[0]: float32[4, 3]", "args[1]: float32[2]"),
    "unsupported_operator": ("x: bfloat16[2, 2]",),
    "backward_stage": ("gradient: float32[2, 2]",),
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_crash_is_explained(name: str) -> None:
    stage, line, title, why, fix = CASES[name]
    block = crash(name)
    assert "lost" not in block
    assert block["where"]["phase"] == stage, block
    assert line in block["where"]["code"], block
    assert title.lower() in block["title"].lower(), block
    assert why in block["why"], block
    assert any(fix in text for text in block["fix"]) or not fix, block
    assert set(GIVEN.get(name, ())) <= set(block["inputs"]), block
    assert block["where"]["own_code"] == (name in ("own_code", "backward_stage")), block
    assert ("script's own code" in block["why"]) == block["where"]["own_code"], block


def test_in_synchronous_mode_the_stack_ends_at_the_line_that_failed(tmp_path: Path) -> None:
    program = (PROGRAMS / "broadcast.py").read_text()
    (tmp_path / "blocking.py").write_text("import mindspore\nimport tensight\n\ntensight.launch_blocking()\n" + program)
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--report", "report.json", "blocking.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1, done.stderr
    block = json.loads((tmp_path / "report.json").read_text())["crash"]
    assert block["where"]["code"] == "gap = prediction - target"
    assert "cannot be trusted" not in block["why"]


def test_a_layer_that_does_not_fit_is_certain_though_the_error_comes_out_later() -> None:
    block = crash("dense_shape")
    assert block["where"]["module"] == "head"
    assert block["where"]["call"] == "Dense(x)"
    assert "cannot be trusted" not in block["why"]


def test_synchronous_mode_is_offered_by_name_where_the_stack_cannot_be_trusted() -> None:
    block = crash("broadcast")
    assert "shapes do not fit: [8, 3] against [8, 4]" in block["title"]
    assert "prediction - target" not in block["where"]["code"]
    assert "cannot be trusted" in block["why"]
    assert "launch_blocking()" in block["fix"][-1]


def test_synchronous_mode_is_not_offered_where_the_line_is_right() -> None:
    assert not any("launch_blocking" in text for text in crash("own_code")["fix"])
    assert not any("launch_blocking" in text for text in crash("unsupported_in_graph")["fix"])
