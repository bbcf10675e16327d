"""Statistics by the kernel and by torch operators, against the NumPy reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.frameworks.torch import reductions, statistics
from tensight.records import Needs, Stats
from tensight.stats import reference

NEEDS = Needs(ranges=((-1.0, 1.0), (0.0, math.inf)), change=True)
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WHOLE = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.bool]
values = st.lists(
    st.one_of(st.floats(-1e4, 1e4, width=16), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])),
    min_size=1,
    max_size=40,
)


def close(found: Stats, expected: Stats) -> None:
    for name in ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive", "min", "max", "within"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("mean", "abs_mean", "std", "l2"):
        wanted = getattr(expected, name)
        if wanted is None:
            assert getattr(found, name) is None
        else:
            scale = max(abs(expected.min or 0), abs(expected.max or 0))
            assert getattr(found, name) == pytest.approx(wanted, rel=1e-6, abs=1e-7 * scale)
    if expected.change is None:
        assert found.change is None
    else:
        assert found.change is not None
        for name in ("count", "moved", "equal"):
            assert getattr(found.change, name) == getattr(expected.change, name), name
        for name in ("abs_mean", "abs_max", "before_abs_mean"):
            assert getattr(found.change, name) == pytest.approx(getattr(expected.change, name), rel=1e-6)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """Exactly the same values in a dtype that NumPy has."""
    return tensor.double().numpy() if tensor.dtype in FLOATS else tensor.numpy()


@pytest.mark.parametrize("dtype", FLOATS)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(now=values, seed=st.integers(0, 100))
def test_torch_operators_agree_with_the_reference_on_floats(dtype: torch.dtype, now: list[float], seed: int) -> None:
    tensor = torch.tensor(now, dtype=torch.float64).to(dtype)
    before = tensor.clone()
    before[:: 2 + seed % 3] *= 2
    close(reductions.reduce(tensor, NEEDS, before), reference.statistics(as_array(tensor), NEEDS, as_array(before)))


@pytest.mark.parametrize("dtype", FLOATS)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(now=values, cut=st.sampled_from(["all", "step", "reversed"]))
def test_whichever_way_is_taken_agrees_with_the_reference(dtype: torch.dtype, now: list[float], cut: str) -> None:
    tensor = torch.tensor(now, dtype=torch.float64).to(dtype)
    if cut == "step":
        tensor = tensor[::2]
    elif cut == "reversed":
        tensor = tensor.flip(0).expand(3, -1).t()
    before = tensor.clone() * 2
    close(statistics.one(tensor, NEEDS, before), reference.statistics(as_array(tensor), NEEDS, as_array(before)))


@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_and_bool_agree_with_the_reference(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1, 0, 1]) if dtype is torch.bool else torch.tensor([0, 3, 100, 7, 0])
    tensor = tensor.to(dtype)
    needs = Needs(ranges=((0.0, 7.0),))
    expected = reference.statistics(tensor.numpy(), needs)
    close(statistics.one(tensor, needs), expected)
    close(reductions.reduce(tensor, needs), expected)


def test_integers_beyond_the_floats_keep_their_exact_extremes() -> None:
    tensor = torch.tensor([2**62 + 1, -(2**61) - 1])
    for stats in (statistics.one(tensor), reductions.reduce(tensor, Needs())):
        assert (stats.min, stats.max) == (-(2**61) - 1, 2**62 + 1)


def test_everything_is_judged_without_the_native_kernel_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "native", None)
    tensor = torch.arange(12.0).view(3, 4).t()
    close(statistics.one(tensor, NEEDS, tensor * 2), reference.statistics(tensor.numpy(), NEEDS, tensor.numpy() * 2))
    found = statistics.many([statistics.Job(tensor), statistics.Job(torch.ones(0)), statistics.Job(tensor, scale=2.0)])
    assert [stats.max for stats in found] == [11.0, None, 5.5]


def test_a_list_of_tensors_is_answered_in_its_order() -> None:
    tensors = [torch.full((n,), float(n)) for n in range(5)] + [torch.ones(2, device="meta")]
    *found, last = statistics.many([statistics.Job(tensor) for tensor in tensors])
    assert [(stats.count, stats.mean) for stats in found] == [(0, None), (1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert isinstance(last, statistics.CannotJudge)
    with pytest.raises(statistics.CannotJudge):
        statistics.one(tensors[-1])


def test_sparse_tensors_are_judged_by_their_values() -> None:
    sparse = torch.sparse_coo_tensor([[0, 0, 3]], [1.0, 2.0, 5.0], (10**9,), check_invariants=True)
    assert (statistics.one(sparse).count, statistics.one(sparse).min) == (2, 3.0)
    assert not sparse.is_coalesced()


def test_scaled_statistics_are_those_of_the_divided_values() -> None:
    tensor = torch.tensor([-4.0, 0.0, 8.0, math.inf])
    needs = Needs(ranges=((0.0, 2.0),))
    close(statistics.one(tensor, needs, None, 4.0), reference.statistics((tensor / 4).numpy(), needs))


def test_looking_changes_nothing() -> None:
    tensor = torch.randn(5, 7, requires_grad=True)
    state, version, copy = torch.get_rng_state(), tensor._version, tensor.detach().clone()
    statistics.one(tensor)
    reductions.reduce(tensor, NEEDS)
    assert torch.equal(torch.get_rng_state(), state)
    assert tensor._version == version
    assert torch.equal(tensor, copy)
    assert tensor.grad_fn is None
