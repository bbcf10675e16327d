"""Compiled networks, run by inductor: the same bits as without Tensight, and their inside is seen.

One program trains four networks. It is run twice, as it is and by `tensight run`, and the two are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensight
from tensight.runs import Run

PROGRAM = Path(__file__).with_name("program.py")
BAD_LINE = next(at for at, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "the bad line" in line)
pytestmark = pytest.mark.timeout(1500)  # a C++ compiler runs for each graph


class Twice:
    """What the program has said without and with Tensight, and the run that was recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = self._run("bare.json")
        tensight_run = ["-m", "tensight", "run", "--no-page", "--level", "module", "--run-dir", str(folder / "run")]
        report = ["--report", str(folder / "report.json")]
        self.watched = self._run("watched.json", *tensight_run, *report)
        self.run: Run = tensight.open(str(folder / "run"))
        self.report = json.loads((folder / "report.json").read_text())

    def _run(self, name: str, *options: str) -> dict[str, Any]:
        out = self.folder / name
        # the cache is shared on purpose: code with probes must never be taken for code without
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *options, str(PROGRAM), str(out)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=700, check=False)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(out.read_text())
        return said

    def seen(self, kind: str, network: str) -> dict[str, Any]:
        """Module → the first observation of it."""
        found: dict[str, Any] = {}
        for step in self.run.steps:
            for one in step.observations:
                info = self.run.tensors[one.tensor]
                if info.kind == kind and info.network == network:
                    found.setdefault(info.name, one)
        return found


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    return Twice(tmp_path_factory.mktemp("compiled"))


def test_losses_weights_and_gradients_are_the_same_bit_by_bit(twice: Twice) -> None:
    for network in ("perceptron", "pictures", "halves", "pairs"):
        assert twice.watched[network] == twice.bare[network], network


def test_no_graph_is_broken_or_added(twice: Twice) -> None:
    assert (twice.watched["graphs"], twice.watched["breaks"]) == (twice.bare["graphs"], twice.bare["breaks"]) == (4, 0)


def test_outputs_of_modules_are_seen_inside_a_compiled_module(twice: Twice) -> None:
    outputs = twice.seen("output", "perceptron")
    assert list(outputs) == ["first", "drop", "second", "norm", "head", ""]
    assert outputs["first"].stats.count == 16 * 16
    assert outputs["head"].stats == outputs[""].stats  # from inside and from outside


def test_gradients_of_outputs_are_seen_inside_a_compiled_module(twice: Twice) -> None:
    gradients = twice.seen("output_gradient", "perceptron")
    assert {"", "head", "norm", "first"} <= set(gradients)
    assert gradients["head"].stats == gradients[""].stats
    assert gradients["head"].phase == "backward"


def test_a_module_that_compiles_itself_is_seen_inside(twice: Twice) -> None:
    assert {"conv", "head"} <= set(twice.seen("output", "pictures"))


def test_modules_called_in_a_compiled_function_are_seen_in_half_precision(twice: Twice) -> None:
    seen = twice.seen("output", "halves") | twice.seen("activation", "halves")
    assert {"0", "1", "2"} <= set(seen)
    assert {info.dtype for info in twice.run.tensors.values() if info.network == "halves" and info.node == "0"} >= {
        "bfloat16"
    }


def test_what_is_fused_away_is_a_gap(twice: Twice) -> None:
    gaps = {gap["what"]: gap for gap in twice.report["coverage"]["gaps"]}
    gap = gaps["outputs of act in compiled perceptron"]
    assert "fused" in gap["reason"]
    assert gap["remedy"]


def test_a_bad_value_inside_is_named_by_module_and_line(twice: Twice) -> None:
    (finding,) = twice.report["findings"]
    assert finding["fault"] == "log_of_zero"
    assert (finding["where"]["module"], finding["where"]["line"]) == ("distance", BAD_LINE)
    assert finding["where"]["file"].endswith("program.py")


def test_each_graph_that_is_captured_is_told(twice: Twice) -> None:
    told = [event for step in twice.run.steps for event in step.events if event.kind == "compile"]
    assert [event.values["graphs"] for event in told] == [1, 2, 3, 4]
    assert {event.values["recompiles"] for event in told} == {0}
    assert [event.part for event in told] == ["perceptron", "pictures", "halves", "pairs"]
