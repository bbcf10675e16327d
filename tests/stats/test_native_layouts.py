"""Shapes, strides, lists, threads and wrong arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.errors import UsageError
from tensight.records import Needs, Stats
from tensight.stats import native, reference, statistics

Array = np.ndarray[Any, Any]


def elements(array: Array) -> tuple[int, ...]:
    return tuple(step // array.dtype.itemsize for step in array.strides)


@st.composite
def views(draw: st.DrawFn) -> tuple[Array, Array]:
    """An array seen in some odd way, and an earlier copy laid out in its own."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    if draw(st.booleans()):
        shape = (*shape, draw(st.sampled_from([600, 1100])))
    name = draw(st.sampled_from(["float32", "float64", "float16", "int64", "uint8"]))
    whole = np.random.default_rng(draw(st.integers(0, 1000))).integers(-50, 50, shape).astype(name)
    view = whole.transpose(draw(st.permutations(range(len(shape)))))
    cuts = tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1, -3]))) for _ in shape)
    view = view[cuts]
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(0, 3)), *view.shape))
    before = np.array(view, order=draw(st.sampled_from("CF")))
    before[before == 3] = 4
    return view, before


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(pair=views(), with_before=st.booleans())
def test_any_layout_gives_the_answer_of_its_values(
    agree: Callable[..., None], pair: tuple[Array, Array], with_before: bool
) -> None:
    view, before = pair
    needs = Needs(ranges=((0.0, 10.0),))
    truth = reference.statistics(view, needs, before if with_before else None)
    agree(
        native.one(
            view.ctypes.data,
            view.dtype.name,
            view.shape,
            elements(view),
            needs,
            before.ctypes.data if with_before else None,
            elements(before),
        ),
        truth,
    )


def test_a_permuted_tensor_is_read_like_a_contiguous_one() -> None:
    array = np.random.default_rng(1).normal(size=(8, 3, 32, 32)).astype(np.float32)
    channels_last = array.transpose(0, 2, 3, 1)
    assert statistics(channels_last) == native.contiguous(array.ctypes.data, "float32", array.size)


def test_a_scalar_has_statistics() -> None:
    assert statistics(np.array(-2.5)) == reference.statistics(np.array(-2.5))


def test_complex_arrays_of_any_layout_are_read(agree: Callable[..., None]) -> None:
    array = np.random.default_rng(2).normal(size=(7, 10)).astype(np.complex64)[::2, ::3]
    agree(statistics(array), reference.statistics(array))


def test_arrays_the_kernel_cannot_read_go_to_the_reference(agree: Callable[..., None]) -> None:
    swapped = np.array([1.0, -2.0], ">f8")
    agree(statistics(swapped), reference.statistics(swapped))
    crooked = np.frombuffer(b"\0" + np.arange(4.0).tobytes(), np.float64, 4, 1)
    agree(statistics(crooked), reference.statistics(crooked))


def test_a_list_gives_what_single_calls_give() -> None:
    random = np.random.default_rng(3)
    arrays: list[Array] = [random.normal(size=size).astype(np.float32) for size in (0, 1, 100, 5000)]
    arrays += [random.integers(0, 9, (4, 6)), random.normal(size=(30, 4)).T, random.normal(size=4) > 0]
    copies = [np.array(array, order="K") if i % 3 else None for i, array in enumerate(arrays)]
    each = [Needs(ranges=((0.0, float(i)),) * i) if i % 2 else None for i in range(len(arrays))]
    items: list[native.Item] = []
    single: list[Stats] = []
    for array, copy, needs in zip(arrays, copies, each):
        before = None if copy is None else copy.ctypes.data
        pointer, name, layout = array.ctypes.data, array.dtype.name, (array.shape, elements(array))
        items.append((pointer, name, layout, before))
        single.append(native.one(pointer, name, *layout, needs, before))
    assert native.many(items, each) == single


def test_a_count_stands_for_a_contiguous_layout() -> None:
    array = np.arange(12.0)
    by_count = native.many([(array.ctypes.data, "float64", 12, 0)])
    assert by_count == native.many([(array.ctypes.data, native.DTYPES["float64"], ((3, 4), (4, 1)), None)])
    assert native.many([]) == []


def test_the_result_grows_with_the_ranges() -> None:
    array = np.arange(10, dtype=np.float32)
    needs = Needs(ranges=tuple((0.0, float(i)) for i in range(500)))
    stats = native.contiguous(array.ctypes.data, "float32", 10, needs)
    assert [within.count for within in stats.within] == [min(i + 1, 10) for i in range(500)]


def test_threads_do_not_mix_up_their_results() -> None:
    arrays = [np.full(size, value, np.float32) for size, value in ((10, 1.0), (50_000, 2.0), (300, 3.0), (40_000, 4.0))]
    wrong: list[Stats] = []

    def ask(array: Array) -> None:
        for _ in range(100):
            stats = native.contiguous(array.ctypes.data, "float32", array.size)
            if stats != Stats(
                count=array.size,
                positive=array.size,
                min=float(array[0]),
                max=float(array[0]),
                mean=float(array[0]),
                abs_mean=float(array[0]),
                std=0.0,
                l2=stats.l2,
            ):
                wrong.append(stats)

    threads = [threading.Thread(target=ask, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


@pytest.mark.parametrize("dtype", ["float12", "", None, 99, -1])
def test_an_unknown_dtype_is_refused(dtype: Any) -> None:
    array = np.zeros(4)
    with pytest.raises(UsageError, match="dtype"):
        native.contiguous(array.ctypes.data, dtype, 4)
    with pytest.raises(UsageError):
        native.many([(array.ctypes.data, dtype, 4, 0)])


def test_layouts_that_make_no_sense_are_refused() -> None:
    array = np.zeros(4)
    with pytest.raises(UsageError, match="-1"):
        native.contiguous(array.ctypes.data, "float64", -1)
    with pytest.raises(UsageError, match="as long as each other"):
        native.one(array.ctypes.data, "float64", (2, 2), (2,))
    with pytest.raises(UsageError, match="below 64"):
        native.one(array.ctypes.data, "float64", (1,) * 70, (1,) * 70)
    with pytest.raises(UsageError, match="item 1"):
        native.many([(array.ctypes.data, "float64", 4, 0), (array.ctypes.data, "float64", ((-4,), (1,)), 0)])
    with pytest.raises(UsageError, match="one for each"):
        native.many([(array.ctypes.data, "float64", 4, 0)], [None, None])


def test_instructions_this_machine_lacks_are_refused_with_the_choices() -> None:
    with pytest.raises(UsageError, match=native.supported_instructions()[-1]):
        native.use_instructions("abacus")
