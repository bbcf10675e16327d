"""What watching holds in the training's process: little that a plain training does not need."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import torch

from tensight.frameworks.relation import information
from tensight.frameworks.torch.loss_facts import facts
from tensight.frameworks.torch.room import Room

TRAINING = """
import atexit
import linecache
import sys

import torch
from torch import nn

net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
before = set(linecache.cache)
for step in range(8):
    loss = nn.functional.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 3, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("READ", sorted(file for file in set(linecache.cache) - before if file != __file__))
print("MODULES", *sorted(sys.modules))
atexit.register(lambda: print("AT_END", *sorted(sys.modules)))
"""

NOT_WANTED = (
    "websockets",
    "tensight.control.link",
    "tensight.control.machine",
    "tensight.diagnosis.crashes",
    "tensight.diagnosis.reasons",
    "tensight.dump.settings",
    "tensight.records.timing",
    "tensight.replay",
    "tensight.runs.report",
    "tensight.runs.run",
    "tensight.session.controlling",
    "tensight.session.stalling",
    "tensight.store.remote",
    "tensight.watchpoints.parser",
    "tomllib",
)


def lines(tmp_path: Path, *options: str) -> dict[str, str]:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", str(tmp_path / "run"), *options]
    done = subprocess.run([*command, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}


def test_a_plain_training_carries_neither_wire_nor_reader_nor_rewind(tmp_path: Path) -> None:
    modules = lines(tmp_path, "--no-rewind")["MODULES"].split()
    assert "tensight.capture.recorder" in modules
    assert [name for name in NOT_WANTED if name in modules] == []


def test_what_explains_crashes_and_bad_operators_is_not_loaded_for_a_healthy_training_that_ends(tmp_path: Path) -> None:
    modules = lines(tmp_path, "--no-rewind")["AT_END"].split()
    assert "tensight.runs.run" in modules  # it is read again at the end
    assert [name for name in ("tensight.diagnosis.crashes", "tensight.diagnosis.reasons") if name in modules] == []


def test_with_rewind_it_carries_what_it_asked_for(tmp_path: Path) -> None:
    assert "tensight.replay.rewinder" in lines(tmp_path)["MODULES"].split()


def test_no_file_of_a_library_is_kept_for_its_lines(tmp_path: Path) -> None:
    assert lines(tmp_path, "--no-rewind")["READ"] == "[]"


def peak_of(work: object) -> int:
    tracemalloc.start()
    try:
        work()  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_asking_whether_labels_fit_takes_no_megabytes() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 64)).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 10, 400).astype(np.float64)
    assert peak_of(lambda: information(rows, labels)) < 2 << 20


def test_products_of_features_are_found_as_before() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    rows[:, 2:] *= 100  # neighbours are ruled by features that say nothing
    found = information(rows, (rows[:, 0] * rows[:, 1] > 0).astype(np.float64))
    assert found is not None
    assert found > 0.2


def test_facts_of_many_classes_copy_a_part_at_a_time() -> None:
    logits = torch.randn(256, 8192)
    target = torch.randint(0, 8192, (256,))
    assert peak_of(lambda: facts("cross_entropy", logits, target, ())) < 3 << 20
    found = facts("nll_loss", logits.log_softmax(1), target, ())
    assert abs(float(found["prediction_exp_sum_min"] or 0) - 1) < 1e-4
    assert abs(float(found["prediction_exp_sum_max"] or 0) - 1) < 1e-4
    kinds = torch.unique(target)
    assert found["target_distinct"] == len(kinds)


def test_a_room_hands_out_places_that_do_not_touch_each_other() -> None:
    given = [
        torch.randn(3, 5).t(),
        torch.ones(7, dtype=torch.bool),
        torch.randn(4, dtype=torch.complex64),
        torch.empty(0),
        torch.randn(2, 6, dtype=torch.float64)[:, ::2],
    ]
    room = Room()
    for tensors in (given, given[::-1], given):
        places = room.hand_out(tensors)
        for place, tensor in zip(places, tensors):
            place.copy_(tensor)
        for place, tensor in zip(places, tensors):
            assert (place.dtype, place.shape, place.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
            assert torch.equal(place, tensor)


def test_a_room_that_is_too_small_grows() -> None:
    room = Room()
    room.hand_out([torch.ones(2)])
    [place] = room.hand_out([torch.ones(5000)])
    place.copy_(torch.arange(5000.0))
    assert torch.equal(place, torch.arange(5000.0))
