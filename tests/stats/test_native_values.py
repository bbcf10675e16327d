"""The kernel gives the reference's answer: every dtype, every set of instructions, any values, any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.records import Needs
from tensight.stats import native, reference, statistics

KINDS = ("bits", "normal", "far from zero", "constant", "zeros", "sprinkled", "tiny", "huge")
SIZES = (0, 1, 2, 7, 15, 16, 33, 64, 257, 4095, 4096, 4097, 9000)
NEEDS = (
    Needs(),
    Needs(ranges=((-1.0, 0.0),)),
    Needs(ranges=((-math.inf, math.inf), (0.1, 12.3), (5.0, 4.0)), change=True, rtol=0.01, atol=0.5),
    Needs(change=True, rtol=0.0, atol=0.0),
)

# complex32 has no NumPy type: it is tested by itself below.
NAMES = [name for name in native.DTYPES if name != "complex32"]


def test_the_kernel_is_available_here() -> None:
    assert native.available(), native.describe()
    assert native.instructions() == native.supported_instructions()[0]
    assert native.instructions() in native.describe()


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_agrees_with_the_reference(
    name: str, agree: Callable[..., None], array_of: Callable[..., Any], using: Callable[[str], Any]
) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(
        kind=st.sampled_from(KINDS),
        size=st.sampled_from(SIZES),
        seed=st.integers(0, 2**32 - 1),
        needs=st.sampled_from(NEEDS),
        step=st.sampled_from(["none", "same", "some", "other"]),
    )
    def check(kind: str, size: int, seed: int, needs: Needs, step: str) -> None:
        array = array_of(name, kind, size, seed)
        before = None
        if step != "none":
            before = array_of(name, kind, size, seed + 1) if step == "other" else array.copy()
            if step == "some":
                before[::3] = before[::-1][::3].copy()
        truth = reference.statistics(array, needs, before)
        for instructions in native.supported_instructions():
            with using(instructions):
                agree(statistics(array, needs, before), truth, name)

    check()


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_every_code_of_an_8_bit_float_is_read_right(name: str, agree: Callable[..., None], array_of: Any) -> None:
    dtype = array_of(name, "bits", 1, 0).dtype
    for code in range(256):
        array = np.array([code], np.uint8).view(dtype)
        agree(statistics(array), reference.statistics(array))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_code_of_a_16_bit_float_is_read_right(
    name: str, agree: Callable[..., None], array_of: Any, using: Callable[[str], Any]
) -> None:
    dtype = array_of(name, "bits", 1, 0).dtype
    array = np.arange(2**16, dtype=np.uint16).view(dtype)
    pieces = array.reshape(512, 128)
    for instructions in native.supported_instructions():
        with using(instructions):
            agree(statistics(array), reference.statistics(array), name)
            for piece in pieces[::4]:
                agree(statistics(piece), reference.statistics(piece), name)


def test_a_half_precision_complex_number_counts_as_two_halves() -> None:
    halves = np.array([1.0, -2.0, np.nan, 4.0], np.float16)
    assert native.contiguous(halves.ctypes.data, "complex32", 2) == statistics(halves)


@pytest.mark.parametrize("place", [0, 1, 5000, 20_000])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_one_bad_value_is_found_wherever_it_is(special: float, place: int, using: Callable[[str], Any]) -> None:
    array = np.ones(20_001, np.float32)
    array[place] = special
    for instructions in native.supported_instructions():
        with using(instructions):
            stats = statistics(array)
            assert (stats.bad, stats.positive, stats.mean, stats.std) == (1, 20_000, 1.0, 0.0)


def test_the_deviation_of_values_far_from_zero_keeps_its_digits(using: Callable[[str], Any]) -> None:
    array = (2.0**23 + np.arange(10_000) % 2).astype(np.float32)
    for instructions in native.supported_instructions():
        with using(instructions):
            assert statistics(array).std == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(("rtol", "atol"), [(1e-5, 1e-8), (1e-3, 0.0), (0.0, 1e-4), (1e-5, 1e-42), (0.0, 0.0)])
def test_weights_that_moved_by_about_the_tolerance_count_as_in_the_reference(
    rtol: float, atol: float, agree: Callable[..., None], using: Callable[[str], Any]
) -> None:
    random = np.random.default_rng(0)
    before = (random.standard_normal(9000) * 10.0 ** random.integers(-44, 30, 9000)).astype(np.float32)
    near = (atol + rtol * np.abs(before.astype(np.float64))) * (1 + random.integers(-8, 9, 9000) * 2.0**-24)
    now = (before + near * random.choice([-1, 1], 9000)).astype(np.float32)
    now[::7] += 1  # beside others that moved far
    needs = Needs(change=True, rtol=rtol, atol=atol)
    truth = reference.statistics(now, needs, before)
    for instructions in native.supported_instructions():
        with using(instructions):
            agree(statistics(now, needs, before), truth, "float32")


@pytest.mark.parametrize("size", [0, 1, 63, 4097, (1 << 18) + 5, (4 << 20) + 77])
@pytest.mark.parametrize("shift", [0, 4, 16])
def test_copies_are_whole_and_touch_nothing_beside_them(size: int, shift: int) -> None:
    source = np.random.default_rng(size).integers(0, 256, size + 32, dtype=np.uint8)
    target = np.full(size + 64, 7, np.uint8)
    native.copy([(target.ctypes.data + shift, source.ctypes.data + 3, size)])
    assert np.array_equal(target[shift : shift + size], source[3 : 3 + size])
    assert (target[:shift] == 7).all()
    assert (target[shift + size :] == 7).all()


def test_several_copies_are_made_in_one_call() -> None:
    random = np.random.default_rng(0)
    sources = [random.standard_normal(size) for size in (1, 300_000, 0, 5000, 800_000)]
    targets = [np.zeros_like(source) for source in sources]
    native.copy([(to.ctypes.data, source.ctypes.data, to.nbytes) for to, source in zip(targets, sources)])
    assert all(np.array_equal(to, source) for to, source in zip(targets, sources))


def test_a_change_at_the_end_of_float64_does_not_spoil_the_moments() -> None:
    now, before = np.array([1.0, 3.0, 5.0]), np.array([1.7e308, 1.7e308, 1.7e308])
    stats = statistics(now, Needs(), before)
    assert stats.mean == 3.0
    assert stats.l2 == pytest.approx(math.sqrt(35))
    assert stats.change is not None
    assert stats.change.before_abs_mean == pytest.approx(1.7e308)
    assert stats.change.abs_mean == pytest.approx(1.7e308)


def test_sums_of_many_values_are_taken_in_float64() -> None:
    array = np.full(3_000_000, 0.1, np.float32)
    array[::2] += np.float32(0.05)
    stats = statistics(array)
    assert stats.mean == pytest.approx(array.astype(np.float64).mean(), rel=1e-13)
    squares = math.fsum(np.square(array.astype(np.float64)))  # np.linalg.norm itself loses digits here
    assert stats.l2 == pytest.approx(math.sqrt(squares), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1.0, 1e17, 1e22, 1e37])
def test_bfloat16_whose_squares_a_float_cannot_hold_keeps_its_digits(scale: float, using: Callable[[str], Any]) -> None:
    array = (np.random.default_rng(1).normal(size=5000) * scale).astype(ml_dtypes.bfloat16)
    truth = reference.statistics(array)
    for instructions in native.supported_instructions():
        with using(instructions):
            got = statistics(array)
            for name in ("mean", "abs_mean", "std", "l2", "min", "max", "zero", "negative"):
                assert getattr(got, name) == pytest.approx(getattr(truth, name), rel=1e-6), name


@pytest.mark.parametrize("sign", [1, -1])
def test_bfloat16_far_from_zero_keeps_its_deviation(sign: int, using: Callable[[str], Any]) -> None:
    array = (sign * np.random.default_rng(1).normal(100, 3, size=5000)).astype(ml_dtypes.bfloat16)
    for instructions in native.supported_instructions():
        with using(instructions):
            got, truth = statistics(array), reference.statistics(array)
            assert got.std == pytest.approx(truth.std, rel=1e-9)
            assert (got.min, got.max) == (truth.min, truth.max)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("count", [131_072, 131_073, 1_000_003])
def test_a_large_tensor_is_read_in_pieces_with_the_results_of_the_whole(
    dtype: str, count: int, agree: Callable[..., None]
) -> None:
    rng = np.random.default_rng(count)
    now = rng.normal(3.0, 2.0, count).astype(dtype)
    now[:: count // 5] = np.nan
    now[7 :: count // 3] = np.inf
    now[9 :: count // 3] = -0.0
    before = now.copy()
    before[count // 2 :] += np.asarray(0.5, dtype)
    needs = Needs(ranges=((0.0, 1.0), (-5.0, 2.5)), change=True)
    agree(statistics(now, needs, before), reference.statistics(now, needs, before))
    agree(statistics(np.full_like(now, 0.1)), reference.statistics(np.full_like(now, 0.1)))


def test_results_are_the_same_on_one_thread_and_on_those_of_torch() -> None:
    import torch

    library = str(Path(torch.__file__).parent / "lib" / "libgomp.so.1")
    arrays = [np.random.default_rng(n).normal(size=n).astype(np.float32) for n in (10, 400_000, 3_000_001)]
    items = [(array.ctypes.data, "float32", array.size, None) for array in arrays]
    before = torch.get_num_threads()
    try:
        native.share_threads(None)
        alone = native.many(items)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert native.share_threads(library)
            assert native.many(items) == alone
            assert [native.contiguous(*item[:3]) for item in items] == alone
    finally:
        torch.set_num_threads(before)
    assert not native.share_threads("/nowhere/libgomp.so.1")
    assert native.many(items) == alone
    native.share_threads(library)
