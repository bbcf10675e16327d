"""Faulty trainings are named and located by the first finding; their healthy twins are left in peace."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tensight.records import Finding
from tensight.session.companions import companions
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tests.mindspore.faults.programs import PROGRAMS
from tests.mindspore.faults.run_one import run


def findings(name: str, folder: Path, *, bad: bool) -> tuple[list[Finding], str]:
    """What a session finds in a program, and what it printed."""
    words = io.StringIO()
    settings = Settings(run_dir=folder / "run", page=False, budget=100.0)
    session = Session(settings, Terminal(words), companions)
    session.start()
    try:
        run(name, bad=bad)
    finally:
        session.finish("finished", script_exit=0)
    assert session.end is not None
    assert session.end.lost == ()
    return session.findings, words.getvalue()


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_fault_is_named_and_located_by_the_first_finding(name: str, tmp_path: Path) -> None:
    expected = PROGRAMS[name].expected
    found, words = findings(name, tmp_path, bad=True)
    assert found, words
    first = found[0]
    assert first.fault == expected.fault, words
    place = first.where
    assert expected.where in f"{place.code} {place.module} {place.op} {place.parameter}", words


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_its_healthy_twin_is_left_in_peace(name: str, tmp_path: Path) -> None:
    found, words = findings(name, tmp_path, bad=False)
    assert found == [], words


def test_three_faults_and_more_are_in_graph_mode() -> None:
    assert sum(program.graph for program in PROGRAMS.values()) >= 3
    assert len({program.expected.fault for program in PROGRAMS.values()}) >= 12
