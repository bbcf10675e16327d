"""Lines of the program that are read to say where something is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.frameworks.torch.lines import kept_after

STEP = """
def step(self, x):
    a, b = self.net(x), self.net(x + 1)
    scores = a @ b.T
    loss = scores.mean()
    loss.backward()
    {first}
    {second}
"""


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ("self.log['loss'].append(loss)", "pass", 7),
        ("self.seen.append(scores.diag().mean().item())", "total += loss", 8),
        ("history[0] = loss", "pass", 7),
        ("self.seen.append(loss.item())", "total += float(loss)", None),
        ("names.append('loss')", "pass", None),
    ],
)
def test_the_line_that_keeps_a_loss_is_found_behind_what_it_is_made_of(
    first: str, second: str, line: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(STEP.format(first=first, second=second))
    found = kept_after((str(file), 3, "step"))
    assert (None if found is None else found.line) == line
