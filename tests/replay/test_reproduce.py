"""The script that shows a fault by itself really shows it."""

from __future__ import annotations

import pytest
import torch
from safetensors.numpy import save_file

from tensight.errors import NameNotFound
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
        (lambda w: torch.log(w).sum(), "result tensor([  -inf"),
        (lambda w: (w**-2).sum(), "inf"),
        (lambda w: torch.sqrt(w).sum(), "gradients tensor([   inf"),
    ],
    ids=["log", "pow", "sqrt backward"],
)
def test_a_reproduction_shows_the_fault(tmp_path, loss, shown):
    assert shown in reproduced(tmp_path, loss)


def test_without_kept_inputs_it_is_said_that_nothing_can_be_reproduced(tmp_path):
    with pytest.raises(NameNotFound, match="step 3"):
        script(Replay(step=3, status="not possible"), tmp_path)
