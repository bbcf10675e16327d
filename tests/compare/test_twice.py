"""`tensight twice` names what is random in scripts that are random in one place, and is silent on others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.compare import twice_scripts
from tests.compare.twice_scripts import SCRIPTS

pytestmark = pytest.mark.timeout(900)  # the fixture runs every script, twice or more


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("scripts")
    done = subprocess.run(
        [sys.executable, twice_scripts.__file__, str(folder)],
        capture_output=True,
        text=True,
        timeout=850,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in found}


@pytest.mark.parametrize("name", [name for name, (_, kind) in SCRIPTS.items() if kind])
def test_the_source_of_randomness_is_named(said: dict[str, dict[str, Any]], name: str) -> None:
    found = said[name]
    assert found["deterministic"] is False
    assert [source["kind"] for source in found["sources"]] == [SCRIPTS[name][1]]
    assert found["sources"][0]["fix"]


@pytest.mark.parametrize("name", [name for name, (_, kind) in SCRIPTS.items() if not kind])
def test_a_deterministic_script_is_left_in_peace(said: dict[str, dict[str, Any]], name: str) -> None:
    assert said[name]["deterministic"] is True
    assert said[name]["sources"] == []
