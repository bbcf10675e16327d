"""Copies that go to disk: exact, apart from the tensor, in memory that is used again."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from tensight.frameworks.torch.lending import LARGE, Pool

KINDS = [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5), (LARGE, 2), (2, 8, 128, 128)], ids=str)
def test_a_copy_is_exact_and_stays_as_it_was(dtype, shape):
    tensor = (torch.rand(shape) * 200).to(dtype)
    copy = Pool().copy(tensor)
    wanted = tensor.clone().numpy()
    tensor.zero_()
    assert (copy.dtype, copy.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(copy, wanted)
    assert copy.flags.c_contiguous


def test_strided_tensors_are_copied_in_their_own_order():
    tensor = torch.rand(64, 8, 32, 32).to(memory_format=torch.channels_last)
    assert np.array_equal(Pool().copy(tensor), tensor.numpy())
    turned = tensor.permute(3, 2, 1, 0)
    assert np.array_equal(Pool().copy(turned), turned.numpy())


def test_memory_is_used_again_when_the_last_view_is_gone():
    pool = Pool()
    tensor = torch.rand(LARGE)
    copy = pool.copy(tensor)
    place, view = copy.ctypes.data, copy[10:]
    del copy
    assert pool.waiting == 0
    assert pool.copy(tensor).ctypes.data != place
    del view
    assert place in {pool.copy(tensor).ctypes.data for _ in range(1)} | {pool.copy(tensor).ctypes.data}


def test_no_more_waits_than_is_allowed():
    pool = Pool(most=3 * LARGE)
    copies = [pool.copy(torch.zeros(LARGE, dtype=torch.uint8)) for _ in range(5)]
    del copies
    assert pool.waiting == 3 * LARGE


def test_memory_comes_back_from_another_thread():
    pool = Pool()
    held = [pool.copy(torch.zeros(LARGE, dtype=torch.uint8))]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert pool.waiting == LARGE


def test_what_waits_is_given_up_when_nothing_is_copied_any_more():
    pool = Pool()
    copies = [pool.copy(torch.zeros(LARGE, dtype=torch.uint8)) for _ in range(3)]
    del copies
    pool.release()
    assert pool.waiting == 0
    assert pool.copy(torch.ones(LARGE, dtype=torch.uint8)).all()
