"""What a rewind keeps: the batches since a snapshot and the state of the training, in memory that is used again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tensight.frameworks.torch.replay_batches import KeptBatches
from tensight.frameworks.torch.snapshot import Snapshot


def _batch(seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {
        "picture": torch.rand(3, 8, 8, 2).permute(3, 0, 1, 2),
        "expanded": torch.rand(4, 1).expand(4, 5),
        "every second": torch.rand(20)[::2],
        "half": torch.rand(7).half(),
        "number": torch.tensor(seed),
        "none": torch.empty(0, 3),
        "whole": torch.randint(9, (5,)),
        "complex": torch.rand(3, dtype=torch.complex64),
    }


def test_batches_come_back_as_they_were_whatever_their_layout() -> None:
    kept = KeptBatches()
    for round_ in range(3):
        for seed in range(4):
            assert kept.append(_batch(seed), list(range(seed)))
        for seed, (batch, samples) in enumerate(kept):
            assert samples == list(range(seed))
            for name, value in _batch(seed).items():
                assert torch.equal(batch[name], value), (round_, name)
                assert batch[name].stride() == value.stride(), name
        kept.clear()
        assert len(kept) == 0 == kept.bytes


def test_a_batch_that_is_changed_in_place_is_kept_as_it_was() -> None:
    kept = KeptBatches()
    live, array = torch.zeros(1000), np.zeros(3)
    kept.append((live, array), None)
    live.add_(1)
    array += 1
    [((batch, kept_array), samples)] = kept
    assert not batch.any()
    assert not kept_array.any()
    assert samples is None


def test_arrays_of_numpy_are_kept_whatever_their_layout() -> None:
    arrays = [np.arange(12.0).reshape(3, 4).T, np.arange(5, dtype=">i4")[::-1], np.array(7), np.zeros((0, 2))]
    arrays += [np.array(["a", "bc"]), np.array([None, {}], object)]
    kept = KeptBatches()
    kept.append(arrays, None)
    [(found, _)] = kept
    for wanted, array in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(array, wanted)
        assert array.dtype == wanted.dtype


def test_keeping_batches_leaves_no_tensor_in_the_heap_of_the_training() -> None:
    kept = KeptBatches()
    kept.append([torch.ones(10), np.ones(10)], list(range(10)))
    assert not [leaf for leaf in tree_leaves(list(kept._kept)) if isinstance(leaf, (torch.Tensor, np.ndarray))]


def test_the_memory_of_batches_is_used_again() -> None:
    kept = KeptBatches()
    kept.append(torch.ones(2_000_000), None)
    [(first, _)] = kept
    place = first.data_ptr()
    kept.clear()
    kept.append(torch.zeros(1_000_000), None)
    [(second, _)] = kept
    assert second.data_ptr() == place


@pytest.mark.parametrize("kind", ["adam", "momentum"])
def test_a_snapshot_uses_the_memory_of_the_one_before_and_brings_back_the_last_state(kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(300, 300)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if kind == "adam":
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.rand(4, 300)).square().sum().backward()
        optimizer.step()

    def state() -> list[torch.Tensor]:
        held = [value for entry in optimizer.state.values() for value in entry.values()]
        return [value.clone() for value in (*model.parameters(), *(p.grad for p in model.parameters()), *held)]

    snapshot = Snapshot()
    step()
    first = snapshot.take(search=True)
    places = [kept.data_ptr() for kept in _kept(snapshot)]
    step()
    wanted = state()
    assert snapshot.take(search=False) == first
    assert [kept.data_ptr() for kept in _kept(snapshot)] == places
    for _ in range(2):  # what was put back is changed by the training; the next snapshot is a copy all the same
        step()
        assert snapshot.put_back()
        assert all(torch.equal(is_, was) for is_, was in zip(state(), wanted, strict=True))
        snapshot.take(search=False)


def _kept(snapshot: Snapshot) -> list[torch.Tensor]:
    gradients = [kept for _, kept in snapshot._gradients if kept is not None]
    states = [value for _, state, _ in snapshot._optimizers for entry in state.values() for value in entry.values()]
    return [kept for _, kept in snapshot._values] + gradients + states
