"""Inputs that are nearly right, for every parser: a result or a sentence, in little time and memory.

These are few, and always the same; `python benchmarks/fuzz.py --cases 100000` tries more of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import checkpoint_parsers, dump_parsers, run_parsers, server_parsers, text_parsers
from tests.fuzz.mutating import LONGEST, changed
from tests.fuzz.trying import MEMORY, Parser, Prepared, try_parser

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"
CASES = 2000 if os.environ.get("TENSIGHT_FULL") == "1" else 60
FAMILIES = (text_parsers, dump_parsers, checkpoint_parsers, run_parsers, server_parsers)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_no_parser_crashes_hangs_or_fills_memory(family) -> None:
    only = [word for parser in family.PARSERS for word in ("--only", parser.name)]
    done = subprocess.run(
        # a hang counts from a minute of the processor on: this machine may be slow
        [sys.executable, str(SCRIPT), "--cases", str(CASES), "--seed", "7", "--hang", "60", "--json", *only],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert {one["name"]: one["crashes"] for one in found["parsers"]} == {one.name: [] for one in family.PARSERS}
    assert all(one["cases"] == CASES for one in found["parsers"])
    assert all(one["memory"] < MEMORY for one in found["parsers"])
    assert all(one["read"] + one["refused"] == CASES for one in found["parsers"])


def test_what_crashes_hangs_or_dies_is_counted(tmp_path: Path) -> None:
    def broken(data: bytes) -> None:
        if data != b"good":
            raise KeyError("x")

    def dying(data: bytes) -> None:
        if data != b"good":
            os.abort()

    def hungry(data: bytes) -> None:
        if data != b"good":
            bytearray(2 * MEMORY)

    def forever(data: bytes) -> None:
        while data != b"good":
            pass

    def tried(read, cases: int = 5, hang: float = 60.0):
        parser = Parser("x", lambda folder: Prepared([b"good"], read))
        return try_parser(parser, range(cases), 1, hang=hang)

    assert "KeyError" in tried(broken).crashes[0]
    assert tried(broken).failed + tried(broken).read == 5
    assert "MemoryError" in tried(hungry).crashes[0]
    assert "ended by signal 6" in tried(dying).crashes[0]
    assert "takes too long" in tried(forever, 1, 0.1).crashes[0]
    assert tried(lambda data: None).crashes == []


def test_a_case_is_known_by_its_number_and_never_too_long() -> None:
    corpus = [b"[1, 2]" * 50, b"x"]
    cases = [changed(corpus, 3, number) for number in range(300)]
    assert cases == [changed(corpus, 3, number) for number in range(300)]
    assert len(set(cases)) > 250
    assert max(map(len, cases)) <= LONGEST
