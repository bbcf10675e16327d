"""A run that was killed is readable, says that it was, and names the rank that is gone."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tensight.cli.explain import explain
from tensight.runs import html, open_run
from tests.page.recorded import write_run


def test_a_killed_training_says_nothing_wrong_so_far(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=5, bad_from=None, killed=True, watch=())
    said = CliRunner().invoke(explain, [str(tmp_path / "run")]).output
    assert "killed after 5 steps; nothing was found wrong so far" in said
    assert "Nothing was found wrong so far." in html.page(open_run(tmp_path / "run"))


def test_a_finished_training_says_nothing_wrong(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=5, bad_from=None, watch=())
    assert "; nothing was found wrong\n" in CliRunner().invoke(explain, [str(tmp_path / "run")]).output


def test_the_rank_that_was_killed_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_run(tmp_path / "run", steps=5, bad_from=None, rank=rank, ranks=2, killed=rank == 1, watch=())
    said = CliRunner().invoke(explain, [str(tmp_path / "run")]).output
    assert "rank 1 was killed, 5 steps of it are recorded" in said
    assert "rank 0" not in said
