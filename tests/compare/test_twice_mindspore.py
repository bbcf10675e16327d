"""`tensight twice` on MindSpore: what is random is named, and a script that is seeded is left in peace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
import mindspore as ms
from pathlib import Path
from mindspore import dataset, nn

place = Path(__file__).with_suffix(".turn")  # differs in each run, as the clock would
number = int(place.read_text()) + 1 if place.exists() else 1
place.write_text(str(number))
seeds = {{"weights": 0, "shuffle": 0, "dropout": 0, {random!r}: number}}

rows = np.random.RandomState(0).randn(64, 4).astype("f")
ms.set_seed(seeds["weights"])
drop = nn.Dropout(p=0.5 if {random!r} == "dropout" else 0.0)
net = nn.SequentialCell(nn.Dense(4, 8), nn.Tanh(), drop, nn.Dense(8, 1))
net.set_train()
optimizer = nn.SGD(net.trainable_params(), 0.1)
dataset.config.set_seed(seeds["shuffle"])
data = dataset.NumpySlicesDataset((rows, rows[:, :1]), ["x", "y"], shuffle={shuffle}, num_parallel_workers=1).batch(8)
ms.set_seed(seeds["dropout"])
dataset.config.set_seed(seeds["shuffle"])
compare = nn.MSELoss()
step = ms.value_and_grad(lambda x, y: compare(net(x), y), None, optimizer.parameters)
for x, y in data.create_tuple_iterator(num_epochs=1):
    loss, gradients = step(x, y)
    optimizer(gradients)
"""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("random", "shuffle", "kind"),
    [("weights", False, "init"), ("shuffle", True, "shuffle"), ("dropout", False, "dropout"), ("nothing", True, "")],
    ids=["weights", "order of the data", "dropout", "seeded"],
)
def test_what_is_random_is_named(random: str, shuffle: bool, kind: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(random=random, shuffle=shuffle).replace('"nothing": number', ""))
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "twice", "--json", str(script)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert [source["kind"] for source in found["sources"]] == ([kind] if kind else [])
    assert found["deterministic"] is (not kind)
    assert all("mindspore.set_seed" in source["fix"] for source in found["sources"])
