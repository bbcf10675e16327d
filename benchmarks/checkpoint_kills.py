"""Kills a training with -9 at random moments while it saves checkpoints, and reads the newest file each time.

    python benchmarks/checkpoint_kills.py --kills 200

Each training is a fork of one process that has everything imported, so that 200 take about a minute. Prints one JSON
object; exits 1 when a newest file could not be read or held a mixture of two steps.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tensight.kit import CheckpointConfig, Driver, ModelCheckpoint, latest_checkpoint, load_checkpoint


def train(folder: Path, format: str, async_save: bool) -> None:
    """Saves in every step; all weights are the number of the step, so that a mixture is seen."""
    network = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
    config = CheckpointConfig(format=format, async_save=async_save, keep_checkpoint_max=3)
    driver = Driver(ModelCheckpoint(directory=folder, config=config), network=network, batch_num=10**9)
    driver.begin()
    driver.epoch_begin()
    while True:
        driver.step_begin()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.fill_(driver.params.cur_step_num)
        driver.step_end(0.0)


def judged(folder: Path) -> str:
    """'' when the newest file is whole, or what is wrong with it."""
    newest = latest_checkpoint(folder)
    if newest is None:
        return "none"
    step = int(newest.stem.rpartition("_")[2])
    try:
        values = load_checkpoint(newest)
    except Exception as error:
        return f"{newest.name}: {error}"
    wrong = [name for name, value in values.items() if not np.array_equal(value, np.full_like(value, step))]
    return f"{newest.name}: {wrong[0]} is of another step" if wrong else ""


def one(folder: Path, format: str, async_save: bool, wait: float) -> str:
    child = os.fork()
    if child == 0:
        try:
            train(folder, format, async_save)
        finally:
            os._exit(1)
    try:
        deadline = time.monotonic() + 60
        while latest_checkpoint(folder) is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(wait)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return judged(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--format", choices=["safetensors", "torch"], default="safetensors")
    parser.add_argument("--async-save", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    choose = random.Random(options.seed)
    troubles = []
    torn = 0
    for _ in range(options.kills):
        folder = Path(tempfile.mkdtemp(prefix="tensight-kills-"))
        try:
            trouble = one(folder, options.format, options.async_save, choose.uniform(0, 0.05))
            torn += any(path.name.startswith(".") for path in folder.iterdir())
            if trouble:
                troubles.append(trouble)
        finally:
            shutil.rmtree(folder)
    print(json.dumps({"kills": options.kills, "in the middle of a file": torn, "unreadable": len(troubles)}))
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
