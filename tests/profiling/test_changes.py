"""Changes that `--try` makes from outside."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tensight.cli import main
from tensight.errors import UsageError
from tensight.frameworks.patches import Patches
from tensight.frameworks.torch.timing_changes import Changes
from tensight.frameworks.torch.timing_loaders import Feed
from tensight.records.timing import Tried

DATA = TensorDataset(torch.zeros(64, 4))


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches()
    threads = torch.get_num_threads()
    yield made
    made.restore()
    gc.enable()
    torch.set_num_threads(threads)


def test_loaders_get_workers_memory_and_larger_batches(patches: Patches):
    Changes(["workers=1", "pinned", "batch=4"]).attach(patches)
    loader = DataLoader(DATA, 2, True)
    assert (loader.num_workers, loader.persistent_workers, loader.pin_memory) == (1, True, True)
    assert loader.batch_size == 8
    patches.restore()
    assert DataLoader(DATA, batch_size=2).batch_size == 2


@pytest.mark.parametrize(("workers", "then"), [(0, 2), (1, 1)])
def test_fetching_ahead_brings_the_workers_it_needs(patches: Patches, workers: int, then: int):
    Changes(["prefetch=8"]).attach(patches)
    loader = DataLoader(TensorDataset(torch.zeros(8, 1)), batch_size=2, num_workers=workers)
    assert (loader.num_workers, loader.prefetch_factor) == (then, 8)


def test_what_workers_compute_while_batches_count_is_theirs():
    feed = Feed(DataLoader(DATA), None)
    feed.pids = {os.getpid(): 0.0, 2**22 + 1: 0.0}  # the second is no process
    feed.count_workers(True)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
    feed.count_workers(False)
    assert 0.05 <= feed.record().worker_cpu <= 60


def test_optimizers_are_fused(patches: Patches):
    Changes(["fused"]).attach(patches)
    parameters = list(nn.Linear(2, 2).parameters())
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        assert kind(parameters, lr=0.1, foreach=False).defaults["fused"] is True


def test_a_call_runs_under_autocast_and_gives_back_what_the_loss_expects():
    model = nn.Linear(4, 4)
    seen = []
    model.register_forward_hook(lambda module, args, result: seen.append(result.dtype))
    result = Changes(["bfloat16"]).call(nn.Module.__call__, model, (torch.zeros(2, 4),), {})
    assert seen == [torch.bfloat16]
    assert result.dtype is torch.float32


def test_images_come_channels_last():
    changes = Changes(["channels_last"])
    model = nn.Conv2d(3, 4, 1)
    changes.met(model)
    assert model.weight.is_contiguous(memory_format=torch.channels_last)
    seen = []
    model.register_forward_pre_hook(
        lambda module, args: seen.append(args[0].is_contiguous(memory_format=torch.channels_last))
    )
    changes.call(nn.Module.__call__, model, (torch.zeros(2, 3, 8, 8),), {})
    assert seen == [True]


def test_threads_and_collector(patches: Patches):
    Changes(["threads=1", "collector"]).attach(patches)
    assert torch.get_num_threads() == 1
    assert not gc.isenabled()
    assert gc.collect() == 0


def test_a_change_that_is_not_known_is_refused():
    with pytest.raises(UsageError, match="is none of workers"):
        Changes(["faster"])


@pytest.mark.parametrize(
    "text", ["workers", "workers=many", "threads=0", "batch=0", "batch=nan", "bucket=inf", "fused=1"]
)
def test_a_change_with_a_number_it_cannot_use_is_refused(text: str):
    with pytest.raises(UsageError, match="number"):
        Changes([text])


def test_what_is_to_be_tried_is_checked_before_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "train.py").write_text("raise SystemExit(7)")
    with pytest.raises(SystemExit) as stopped:
        main(["profile", "--try-change", "bananas", "--run-dir", str(tmp_path / "run"), str(tmp_path / "train.py")])
    assert stopped.value.code == 2
    assert "the change 'bananas' is none of workers=4" in capsys.readouterr().err


def test_the_gain_is_a_share_of_the_step():
    assert Tried("fused", 0.2, 0.05).gain == pytest.approx(0.75)
    assert Tried("fused", 0.0, 0.05).gain == 0
