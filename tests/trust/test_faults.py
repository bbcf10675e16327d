"""The fault matrix: what goes wrong around a training, and where it is shown that the training does not mind.

Faults that strike at random moments are tried by `benchmarks/faults.py`; here a few times each. The others have tests
of their own, which this table names by a few words.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults.py"
PATIENCE = 1400 if os.environ.get("TENSIGHT_FULL") != "1" else 7000
EACH = 30 if os.environ.get("TENSIGHT_FULL") == "1" else 2

TRIED = {
    "the server dies": ["server_dies"],
    "the training is killed": ["killed"],
    "the disk is full": ["disk_full"],
    "the disk is slow": ["slow_disk"],
    "the clock jumps": ["clock_jumps"],
    "workers are forked": ["forked_workers"],
    "workers are spawned": ["spawned_workers"],
    "several threads": ["threads"],
    "memory is short": ["memory_short"],
    "Ctrl-C and SIGTERM": ["ctrl_c", "terminated"],
    "an error in a probe": ["probe_errors"],
}
ELSEWHERE = {
    "the page is gone while paused": [
        "tests.control.test_controlling:whose_server_is_gone_goes_on",
        "tests.control.test_controlling:comes_back_in_time",
    ],
    "one rank dies": [
        "tests.ranks.test_pausing:one_that_is_killed_is_named",
        "tests.ranks.test_verdict:the_rank_that_was_killed_is_named",
    ],
    "ranks are spawned": ["tests.cli.test_commands:processes_that_a_script_spawns"],
    "a disk that is full and has room again": [
        "tests.store.test_writing:a_full_disk_costs_the_steps_of_that_time_and_says_so"
    ],
    "a disk too slow for a dump": ["tests.dump.test_writing:a_full_queue_drops_what_finds_no_room_and_says_so"],
    "a server that comes back": [
        "tests.control.test_link:a_server_that_comes_back_hears_the_latest_state",
        "tests.ranks.test_sending:a_file_that_grows_is_sent_from_where_it_was",
    ],
    "an error in every condition, rule and writer": [
        "tests.harm.test_errors:test_an_error_in_a_condition",
        "tests.harm.test_errors:test_an_error_in_a_rule",
        "tests.harm.test_errors:test_an_error_in_the_writer",
    ],
    "many kills of a writer": ["tests.store.test_kills:no_acknowledged_step_is_lost"],
}


SIGNALS = {"killed", "ctrl_c", "terminated"}


@pytest.mark.timeout(2 * PATIENCE)  # torch is imported and many processes are made, on however slow a machine
@pytest.mark.parametrize("signals", [False, True], ids=["around the training", "to its process"])
def test_a_training_that_meets_a_fault_has_the_same_bits_and_leaves_a_readable_run(signals: bool) -> None:
    faults = [fault for row in TRIED.values() for fault in row if (fault in SIGNALS) == signals]
    only = [word for fault in faults for word in ("--only", fault)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--each", str(EACH), "--seed", "5", "--json", *only],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout, done.stderr
    found = {one["fault"]: one for one in json.loads(done.stdout)}
    assert {fault: one["failed"] for fault, one in found.items()} == {fault: [] for fault in faults}
    assert {one["trials"] for one in found.values()} == {EACH}


@pytest.mark.parametrize("row", ELSEWHERE)
def test_the_other_rows_of_the_matrix_have_their_tests(row: str) -> None:
    for place in ELSEWHERE[row]:
        module, _, words = place.partition(":")
        assert [name for name in vars(importlib.import_module(module)) if name.startswith("test_") and words in name]
