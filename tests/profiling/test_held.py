"""The line that is blamed for a variable which keeps old graphs alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.frameworks.torch.timing_held import _assigned


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("total = 0\ntotal += loss.item()\ntotal += loss", "total", 3),
        ("curve = []\ncurve.append(loss.item() if fast else loss)", "curve", 2),
        ("state = zeros\nstate = cell(x, state)", "state", 2),
        ("kept = {}\nkept[step] = loss", "kept", 2),
        ("other = 1", "total", 0),
    ],
)
def test_the_line_that_adds_is_blamed(tmp_path: Path, code: str, name: str, line: int):
    path = tmp_path / "train.py"
    path.write_text(code + "\n")
    assert _assigned(str(path), 1, code.count("\n") + 1, name) == line
