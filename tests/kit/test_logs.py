"""Logs by the environment variables of MindSpore."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tensight.errors import UsageError
from tensight.kit import logs

VARIABLES = [
    *("GLOG_v", "GLOG_logtostderr", "GLOG_log_dir", "GLOG_stderrthreshold", "MS_SUBMODULE_LOG_v", "RANK", "RANK_ID"),
    *("logger_maxBytes", "logger_backupCount", "TENSIGHT_LOG_v", "TENSIGHT_LOG_DIR", "TENSIGHT_SUBMODULE_LOG_v"),
]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    logs.reset()


def say_all(name: str = "user") -> None:
    logger = logs.get_logger(name)
    for level in logs.LEVELS:
        logger.log(level, "at %d", level)


@pytest.mark.parametrize(("level", "count"), [(None, 3), ("0", 5), ("1", 4), ("2", 3), ("3", 2), ("4", 1)])
def test_levels_0_to_4(
    level: str | None, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if level is not None:
        monkeypatch.setenv("GLOG_v", level)
    logs.configure()
    say_all()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == count
    assert lines[-1].startswith(f"[CRITICAL] TENSIGHT({os.getpid()},0):")
    assert lines[-1].endswith("tensight.user: at 50")


def test_to_a_file_of_the_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GLOG_logtostderr", "0")
    monkeypatch.setenv("GLOG_log_dir", str(tmp_path))
    monkeypatch.setenv("GLOG_v", "1")
    monkeypatch.setenv("RANK", "3")
    logs.configure()
    say_all()
    logs.reset()
    text = (tmp_path / "rank_3" / "logs" / "tensight.log").read_text()
    assert [line.partition("]")[0] for line in text.splitlines()] == ["[INFO", "[WARNING", "[ERROR", "[CRITICAL"]
    assert len(capsys.readouterr().err.splitlines()) == 3  # warnings are shown as well


def test_with_a_directory_and_the_screen_asked_for_nothing_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOG_log_dir", str(tmp_path))
    logs.configure()
    say_all()
    assert list(tmp_path.iterdir()) == []


def test_submodules_have_levels_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GLOG_v", "3")
    monkeypatch.setenv("MS_SUBMODULE_LOG_v", "{KIT:1,PARSER:2}")
    logs.configure()
    say_all("kit.checkpoint")
    say_all("store")
    levels = [line.partition("]")[0][1:] for line in capsys.readouterr().err.splitlines()]
    assert levels == ["INFO", "WARNING", "ERROR", "CRITICAL", "ERROR", "CRITICAL"]


def test_files_are_rotated_by_size_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOG_logtostderr", "0")
    monkeypatch.setenv("GLOG_log_dir", str(tmp_path))
    monkeypatch.setenv("GLOG_v", "1")
    monkeypatch.setenv("logger_maxBytes", "500")
    monkeypatch.setenv("logger_backupCount", "2")
    logs.configure()
    for number in range(50):
        logs.get_logger().info("line %d", number)
    logs.reset()
    files = sorted((tmp_path / "rank_0" / "logs").iterdir())
    assert [file.name for file in files] == ["tensight.log", "tensight.log.1", "tensight.log.2"]
    assert all(file.stat().st_size <= 500 for file in files)
    assert "line 49" in files[0].read_text()


def test_a_wrong_variable_ends_no_training(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GLOG_v", "7")
    monkeypatch.setenv("GLOG_logtostderr", "0")
    say_all()
    lines = capsys.readouterr().err.splitlines()
    assert "there is no log level 7" in lines[0]
    assert len(lines) == 4


def test_our_own_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOG_v", "0")
    monkeypatch.setenv("TENSIGHT_LOG_v", "4")
    assert logs.configure().level == logging.CRITICAL


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("GLOG_v", "7", "there is no log level 7"),
        ("GLOG_v", "much", "'much' is no number"),
        ("MS_SUBMODULE_LOG_v", "KIT:1", "not of the form"),
        ("MS_SUBMODULE_LOG_v", "{KIT:9}", "'KIT:9' is not NAME:LEVEL"),
        ("GLOG_logtostderr", "0", "needs GLOG_log_dir"),
    ],
)
def test_a_wrong_variable_gets_one_sentence(name: str, value: str, words: str, monkeypatch: Any) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=words):
        logs.configure()
