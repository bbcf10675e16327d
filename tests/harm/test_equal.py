"""A training is bitwise the same with and without Tensight."""

from __future__ import annotations

import io
import itertools
import os
from pathlib import Path

import pytest
import torch

from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.testing.pairwise import pairwise
from tests.harm.networks import NETWORKS, Setting, run

AXES = {
    "name": list(NETWORKS),
    "level": ["watch", "module", "op"],
    "bfloat16": [False, True],
    "threads": [1, 2],
    "workers": [0, 2],
}
WHOLE = [dict(zip(AXES, values)) for values in itertools.product(*AXES.values())]
CASES = WHOLE if os.environ.get("TENSIGHT_FULL") else pairwise(AXES)


def label(case: dict[str, object]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.mark.parametrize("case", CASES, ids=label)
def test_losses_weights_states_and_generators_are_the_same_to_the_last_bit(
    case: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(case["name"])
    setting = Setting(bool(case["bfloat16"]), int(str(case["threads"])), int(str(case["workers"])))
    try:
        bare = run(name, setting)
    except RuntimeError as error:
        if "could not create a primitive descriptor" not in str(error):
            raise
        # this processor has no bfloat16 kernel for it in oneDNN: torch's own are used instead, in both runs
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
        bare = run(name, setting)
    words = io.StringIO()
    session = Session(Settings(run_dir=tmp_path / "run", level=case["level"]), Terminal(words))  # type: ignore[arg-type]
    session.start()
    try:
        watched = run(name, setting)
    finally:
        session.finish("finished", script_exit=0)
    different = [key for key in bare if bare[key] != watched.get(key)]
    assert not different
    assert session.recorder.step > 0, "nothing was watched"
    assert "held back" not in words.getvalue()


def test_the_comparison_can_fail() -> None:
    one, other = run("mlp", Setting()), run("mlp", Setting(bfloat16=True))
    assert one != other


def test_a_training_repeats_itself_without_tensight() -> None:
    assert run("mlp", Setting(workers=2)) == run("mlp", Setting(workers=2))
