"""Trainings with one fault each, named in the first line of the program: it is found, and it comes first.

Some of them run in every test, all with TENSIGHT_FULL=1.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.diagnosis.builders import NAMES
from tests.networks.running import FULL, findings, programs

SOME = (
    "vae_exp_overflow",
    "attention_all_masked",
    "gan_gradients_pile_up",
    "unet_sigmoid_twice",
    "teacher_pulls_student",
    "attention_without_scale",
)
CHOSEN = [program for program in programs("faulty") if FULL or program.stem in SOME]


def fault_of(program: Path) -> str:
    named = re.match(r'"""fault: (\w+)\n', program.read_text())
    assert named, f"{program.name} does not name its fault"
    return named.group(1)


def test_every_program_names_a_fault_of_its_own() -> None:
    faults = [fault_of(program) for program in programs("faulty")]
    assert len(set(faults)) == len(faults) >= 8
    assert set(faults) <= NAMES


@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.stem)
def test_the_fault_is_the_first_finding_and_its_consequences_are_not_listed(program: Path, tmp_path: Path) -> None:
    found = findings(program, tmp_path, budget="5" if FULL else "100")
    assert [finding["fault"] for finding in found] == [fault_of(program)]
