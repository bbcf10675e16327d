"""A tensor that cannot be judged for lack of memory is said with its code; everything else is judged, and trains on."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mindspore
import numpy as np
import pytest
import torch

from tensight.frameworks.memory import OUT_OF_MEMORY, is_lack_of_memory
from tensight.frameworks.mindspore import watching as watching_of_mindspore
from tensight.frameworks.mindspore.watching import Slot, Watching
from tensight.frameworks.torch import reductions, statistics
from tensight.records import Needs, TensorInfo

TORCH = """
import resource
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1_000_000))
optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
x = torch.rand(16, 4)

def step():
    optimizer.zero_grad()
    loss = network(x).mean()
    loss.backward()
    optimizer.step()
    return loss.item()

step()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (360 << 20), resource.RLIM_INFINITY))
print([step() for _ in range(2)])
"""


def test_what_there_was_no_memory_for_is_said_with_its_code_and_the_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TORCH)
    environment = {**os.environ, "TENSIGHT_NATIVE": "off", "OMP_NUM_THREADS": "1"}  # which takes copies of a tensor
    words = ["-m", "tensight", "run", "--no-page", "--no-rewind", "--budget", "100", "--report", "report.json"]
    options: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    bare = subprocess.run([sys.executable, "train.py"], timeout=300, **options)
    assert bare.returncode == 0, bare.stderr
    ran = subprocess.run([sys.executable, *words, "--watch", "TL(max_gt=1e9) on *", "train.py"], timeout=300, **options)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == bare.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    unjudged = [hit for hit in report["hits"] if hit["error"] == "out_of_memory"]
    assert {hit["node"] for hit in unjudged} == {"", "1"}  # the large result, as the layer's and as the network's
    assert {"TL"} <= {hit["condition"] for hit in unjudged}
    assert report["findings"] == []
    assert report["run"]["steps"] == 3


def test_each_way_of_saying_it_is_known() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 58)
    assert is_lack_of_memory(refused.value)
    with pytest.raises(MemoryError) as numpys:
        np.empty(1 << 58)
    assert is_lack_of_memory(numpys.value)
    assert is_lack_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert not is_lack_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_lack_of_memory(FileNotFoundError(2, "No such file"))


def test_only_what_finds_no_memory_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    native = statistics.native
    assert native is not None
    read = native.many

    def short(items: list[Any], needs: Any) -> Any:
        if any(item[2] == 9 for item in items):
            raise MemoryError("no memory for the statistics")
        return read(items, needs)

    monkeypatch.setattr(native, "many", short)
    jobs = [statistics.Job(torch.ones(size)) for size in (3, 9, 4)]
    first, lost, last = statistics.many(jobs)
    assert (first.count, last.count) == (3, 4)  # type: ignore[union-attr]
    assert isinstance(lost, statistics.CannotJudge)
    assert lost.code == OUT_OF_MEMORY


def test_mindspores_way_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator a tensor has to be copied to be read; here its values are where NumPy reads them."""

    def refused(self: Any) -> Any:
        raise RuntimeError("Allocate memory failed")

    told: list[tuple[int, str, str]] = []
    sink = SimpleNamespace(unobserved=lambda *said: told.append(said), needs_version=0, needs=lambda info: Needs())
    slot = Slot(TensorInfo(7, "output", "net", "output.0"))
    watching = Watching(cast("Any", sink))
    with monkeypatch.context() as patched:
        patched.setattr(mindspore.Tensor, "asnumpy", refused)
        watching.look(slot, mindspore.Tensor([1.0]), "forward")

    def short(*given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(watching_of_mindspore, "measured", short)
    watching.look(slot, mindspore.Tensor([1.0]), "backward")
    assert told == [(7, OUT_OF_MEMORY, "forward"), (7, OUT_OF_MEMORY, "backward")]


def test_a_tensor_that_cannot_be_judged_is_not_held() -> None:
    gc.disable()
    try:
        tensor = torch.ones(4, device="meta")
        gone = weakref.ref(tensor)
        with contextlib.suppress(statistics.CannotJudge):
            statistics.one(tensor)
        statistics.many([statistics.Job(tensor)])
        del tensor
        assert gone() is None
    finally:
        gc.enable()


def test_another_error_of_the_framework_is_no_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr(statistics, "native", None)
    monkeypatch.setattr(reductions, "reduce", broken)
    with pytest.raises(RuntimeError, match="no kernel"):
        statistics.one(torch.ones(3))
