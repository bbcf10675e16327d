"""All ranks of a launch share one folder; the note that tells them goes when every rank is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.session.settings import Settings, forget_launch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "29599")
    return tmp_path


def launched(monkeypatch: pytest.MonkeyPatch) -> Path:
    folders = set()
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        folders.add(Settings(name="train").folder())
    [folder] = folders
    return folder


def notes(place: Path) -> list[str]:
    return [one.name for one in (place / "runs").iterdir() if one.name.startswith(".launch-")]


def test_a_launch_leaves_no_note_behind_and_the_next_has_a_folder_of_its_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = launched(monkeypatch)
    assert len(notes(place)) == 1
    (first / "rank-0").mkdir()
    forget_launch(first)
    assert len(notes(place)) == 1  # the other rank is still to read it
    (first / "rank-1").mkdir()
    forget_launch(first)
    forget_launch(first)  # each rank takes it away when it ends
    assert notes(place) == []
    assert launched(monkeypatch) != first


def test_the_note_of_another_launch_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = launched(monkeypatch)
    monkeypatch.setenv("MASTER_PORT", "29600")
    second = launched(monkeypatch)
    for rank in ("rank-0", "rank-1"):
        (second / rank).mkdir()
    forget_launch(second.absolute())
    assert [name.endswith("-29599") for name in notes(place)] == [True]
    assert first != second


def test_a_script_that_has_changed_its_directory_is_no_hindrance(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = launched(monkeypatch).absolute()
    for rank in ("rank-0", "rank-1"):
        (folder / rank).mkdir()
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    forget_launch(folder)
    assert notes(place) == []


def test_a_folder_without_a_note_and_one_that_is_gone_are_fine(place: Path) -> None:
    forget_launch(place / "chosen" / "run")
