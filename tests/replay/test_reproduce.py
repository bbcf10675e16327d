"""The script that shows a fault by itself really shows it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from safetensors.numpy import save_file

from tensight.cli.explain import reproduce
from tensight.errors import FormatError, NameNotFound
from tensight.records import Replay
from tensight.replay.reproduce import script
from tests.operators.look import look_at, loss_step
from tests.replay.jobs import bare

ZERO = torch.tensor([0.0, 1.0, 4.0])


def reproduced(tmp_path, loss) -> str:
    seen = look_at(loss_step(loss, ZERO))
    save_file(dict(seen.values), str(tmp_path / "values.safetensors"))
    replay = Replay(
        **{**{f: getattr(seen.replay, f) for f in seen.replay.__struct_fields__}, "tensors": "values.safetensors"}
    )
    text = script(replay, tmp_path)
    return bare(tmp_path, text)


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (lambda w: torch.log(w).sum(), "result of shape [3]: 0 NaN, 1 infinite of 3 values\n  tensor([  -inf"),
        (lambda w: (w**-2).sum(), "inf"),
        (lambda w: torch.sqrt(w).sum(), "gradients of shape [3]: 0 NaN, 1 infinite of 3 values\n  tensor([   inf"),
    ],
    ids=["log", "pow", "sqrt backward"],
)
def test_a_reproduction_shows_the_fault(tmp_path, loss, shown):
    assert shown in reproduced(tmp_path, loss)


@pytest.mark.parametrize("named", ["../secret", "replays/../../secret", "{outside}/secret", "replays/link"])
def test_a_run_of_a_stranger_gives_away_no_other_file(tmp_path, named):
    run = tmp_path / "run"
    (run / "replays").mkdir(parents=True)
    (tmp_path / "secret").write_text("mine")
    (run / "replays" / "link").symlink_to(tmp_path / "secret")
    replay = Replay(3, "exact", operator="aten.log", tensors=named.format(outside=tmp_path))
    opened = SimpleNamespace(replays=[replay], path=run)
    with pytest.raises(FormatError, match="the inputs of step 3 are said to lie outside of it"):
        reproduce(opened, tmp_path / "out" / "shown.py")
    with pytest.raises(FormatError, match="outside of it"):
        script(replay, run)
    assert not list((tmp_path / "out").glob("*"))


def test_of_a_large_tensor_the_row_of_the_first_bad_value_is_shown(tmp_path):
    scores = torch.zeros(8, 6, 12, 12)
    scores[5, 2, 7] = float("-inf")
    seen = look_at(loss_step(lambda w: (w + scores).softmax(-1).sum(), torch.zeros(1)))
    save_file(dict(seen.values), str(tmp_path / "values.safetensors"))
    kept = {name: getattr(seen.replay, name) for name in seen.replay.__struct_fields__}
    text = script(Replay(**{**kept, "tensors": "values.safetensors"}), tmp_path)
    assert len([line for line in text.splitlines() if line]) <= 18  # short enough to be read in a report of a fault
    said = bare(tmp_path, text)
    lines = said.splitlines()
    assert lines[0] == "input 0 of shape [8, 6, 12, 12]: 0 NaN, 12 infinite of 6912 values"
    assert lines[1].startswith("  [5, 2, 7] tensor([-inf, -inf")
    assert "result of shape [8, 6, 12, 12]: 12 NaN, 0 infinite of 6912 values" in lines
    assert len(lines) < 10


def test_without_kept_inputs_it_is_said_that_nothing_can_be_reproduced(tmp_path):
    with pytest.raises(NameNotFound, match="step 3"):
        script(Replay(step=3, status="not possible"), tmp_path)
