"""Healthy, realistic trainings: nothing may be found in them.

Six of them run for 150 steps with every step watched; with TENSIGHT_FULL=1 all run for 500 steps as a user runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.networks.running import FULL, findings, programs

SOME = ("cnn_augmented", "gan", "gpt_tied", "grad_scaler", "missing_values", "momentum_by_hand", "prices_scaled_inside")
CHOSEN = [program for program in programs("healthy") if FULL or program.stem in SOME]


def test_there_are_at_least_twelve_healthy_programs() -> None:
    assert len(programs("healthy")) >= 12
    assert len(CHOSEN) >= len(SOME)


@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.stem)
def test_nothing_is_found_in_a_healthy_training(program: Path, tmp_path: Path) -> None:
    found = findings(program, tmp_path, "500") if FULL else findings(program, tmp_path, "150", budget="100")
    assert [(finding["fault"], finding["why"]) for finding in found] == []
