"""What the script prints is kept with its steps, and goes where it went before, byte for byte."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tensight.records import RunEnd, StepRecord
from tensight.runs import output
from tensight.session.output import LONGEST, MOST_WAITING, Listening
from tensight.session.terminal import Terminal


class Bench:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.out, self.err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        monkeypatch.setattr(sys, "stdout", self.out)
        monkeypatch.setattr(sys, "stderr", self.err)
        self.failed: list[str] = []
        self.recorder = SimpleNamespace(step=0, rank=0, failed=lambda where, error: self.failed.append(str(error)))
        self.listening = Listening(cast("Any", self.recorder), folder)
        self.listening.started()

    def end(self) -> list[output.Line]:
        self.listening.ended(RunEnd("finished", 0.0))
        assert self.failed == []
        return output.read(self.folder, 0, 10_000)

    def printed(self) -> bytes:
        return cast("io.BytesIO", self.out.buffer).getvalue()


def test_lines_come_with_their_step_and_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    print("one", "two")
    bench.recorder.step = 7
    print("half ", end="")
    print("a line")
    print("trouble", file=sys.stderr)
    print("\rprogress 10 %\rprogress 20 %", end="")
    lines = bench.end()
    assert [(one.step, one.stream, one.text) for one in lines] == [
        (0, "stdout", "one two"),
        (7, "stdout", "half a line"),
        (7, "stderr", "trouble"),
        (7, "stdout", "\rprogress 10 %\rprogress 20 %"),
    ]
    assert bench.printed() == b"one two\nhalf a line\n\rprogress 10 %\rprogress 20 %"


def test_the_streams_are_left_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    assert sys.stdout is bench.out
    assert sys.stdout.write("four") == 4
    bench.end()
    assert "write" not in sys.stdout.__dict__
    print("later")
    assert bench.printed() == b"fourlater\n"


def test_a_flood_and_strange_characters_are_borne(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    monkeypatch.setattr("tensight.session.output.EVERY", 3600.0)
    print("x" * 100_000)
    for number in range(MOST_WAITING + 50):
        print(number)
    lines = bench.end()
    assert len(lines[0].text) == LONGEST
    assert len(lines) == 1 + MOST_WAITING + 1
    assert lines[-1].text == "50 more lines were printed"
    broken = output.Line(0, 0.0, "stdout", "half \ud800 a pair")
    output.append(tmp_path, 1, [broken, output.Line(1, 0.0, "stdout", "ok")])
    assert [one.text for one in output.read(tmp_path, 1)] == ["half ? a pair", "ok"]


def test_only_the_newest_megabytes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MOST_BYTES", 1000)
    for step in range(500):
        output.append(tmp_path, 0, [output.Line(step, 0.0, "stdout", f"line {step}")])
    lines = output.read(tmp_path, 0)
    assert lines[-1].text == "line 499"
    assert 10 < len(lines) < 200
    assert sum(one.stat().st_size for one in tmp_path.rglob("*.jsonl")) < 3000


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        """The lines as a terminal shows them."""
        lines = []
        for line in self.getvalue().split("\n"):
            cells: list[str] = []
            for part in line.split("\r"):
                cells[: len(part)] = part
            lines.append("".join(cells).rstrip())
        return lines


def test_the_status_line_goes_out_of_the_way_of_what_the_script_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("tensight.session.terminal.EVERY", 0.0)
    terminal = Terminal(screen)
    recorder = SimpleNamespace(step=0, rank=0, failed=lambda where, error: None)
    listening = Listening(cast("Any", recorder), tmp_path, make_room=terminal.make_room)
    terminal.in_a_line = lambda: listening.in_a_line
    listening.started()
    terminal.step(StepRecord(1, 0.0, 0.1, loss=1.5), 1.02)
    assert screen.shown() == ["step 1  loss 1.5  watching 2.0 %"]
    print("epoch 1")
    terminal.step(StepRecord(2, 0.0, 0.1, loss=1.25), 1.02)
    print("12 %", end="", file=sys.stderr)  # a progress bar: it keeps its line until it is done
    terminal.step(StepRecord(3, 0.0, 0.1, loss=1.0), 1.02)
    print("\rdone", file=sys.stderr)
    listening.ended(RunEnd("finished", 0.0))
    assert screen.shown() == ["epoch 1", "done", ""]
