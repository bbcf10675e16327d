"""Slices of tensors as people write them, and what is drawn of their values."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
import pytest

from tensight.errors import UsageError
from tensight.runs import picture, slicing


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("", np.s_[:]),
        ("[0]", np.s_[0]),
        ("0, :, 3:5", np.s_[0, :, 3:5]),
        ("[-1, ::2]", np.s_[-1, ::2]),
        ("[..., 2]", np.s_[..., 2]),
        ("[1, ..., 0]", np.s_[1, ..., 0]),
        ("[ : , 1 : 3 , 5 ]", np.s_[:, 1:3, 5]),
        ("[0, 5:1:-2]", np.s_[0, 5:1:-2]),
    ],
)
def test_a_slice_means_what_it_means_in_python(text: str, same: object) -> None:
    array = np.arange(2 * 7 * 8).reshape(2, 7, 8)
    assert np.array_equal(array[slicing.parse(text, array.shape)], array[same])  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "[a]",
        "[0, 0, 0, 0]",
        "[2]",
        "[-3]",
        "[0.5]",
        "[::0]",
        "[..., ...]",
        "[;]",
        "[[0]]",
        "[" + "9" * 500 + "]",
        "[,]",
    ],
)
def test_what_is_no_slice_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        slicing.parse(text, (2, 7, 8))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_heat_map_loses_no_bad_value() -> None:
    array = np.zeros((2000, 1500), np.float32)
    array[1234, 999] = math.nan
    array[3, 4] = math.inf
    made = picture.heat(array, 100)
    assert made.mean.shape == (100, 100)
    assert np.isnan(made.mean).sum() == 1
    assert np.isinf(made.mean).sum() == 1
    assert (made.rows, made.columns) == (2000, 1500)


def test_a_heat_map_of_blocks_has_their_mean_and_extremes() -> None:
    array = np.arange(64, dtype=np.float64).reshape(8, 8)
    made = picture.heat(array, 4)
    assert made.mean[0, 0] == np.mean([0, 1, 8, 9])
    assert (made.least[3, 3], made.greatest[3, 3]) == (54, 63)
    small = picture.heat(array, 8)
    assert np.array_equal(small.mean, array)
    assert picture.heat(np.zeros((0, 4))).mean.size == 0


@pytest.mark.parametrize("kind", ["float16", "float64", "int64", "uint8", "bool", "complex64"])
def test_every_dtype_is_drawn(kind: str) -> None:
    array = np.arange(60).reshape(3, 4, 5).astype(kind)
    assert picture.heat(array).mean.shape == (12, 5)
    histogram = picture.histogram(array)
    assert histogram is not None
    assert sum(histogram.counts) == 60
    assert picture.quantiles(array)["1"] == float(np.abs(array).max())


def test_a_histogram_holds_the_widest_values_there_are() -> None:
    big = np.finfo(np.float64).max
    made = picture.histogram(np.array([-big, 0.0, big, math.inf, math.nan]))
    assert made is not None
    assert sum(made.counts) == 3
    assert picture.histogram(np.array([math.nan])) is None
    assert picture.histogram(np.array([])) is None


def test_a_difference_counts_what_is_beyond_the_tolerance() -> None:
    a = np.array([[1.0, 2.0, math.nan], [math.inf, 5.0, 0.0]])
    b = np.array([[1.0, 2.1, math.nan], [math.inf, math.nan, 0.0]])
    found, apart = picture.difference(a, b, 0.0, 0.05)
    assert (found.count, found.different, found.first) == (6, 2, (0, 1))
    assert found.worst == (1, 1)
    assert found.max_abs == pytest.approx(0.1)
    assert apart[0, 2] == apart[1, 0] == 0.0
    assert picture.difference(a, b, 0.1, 0.0)[0].different == 1
    assert picture.difference(a, a, 0.0, 0.0)[0].different == 0
    with pytest.raises(UsageError, match="shapes are 2×3 and 6"):
        picture.difference(a, b.reshape(-1), 0.0, 0.0)


@pytest.mark.parametrize("shape", [(3, 9, 12), (9, 12, 3), (1, 9, 12), (9, 12, 4)])
def test_an_image_is_a_png_of_its_size(shape: tuple[int, ...]) -> None:
    data = picture.image(np.random.default_rng(0).random(shape), 0)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (12, 9)
    start = data.index(b"IDAT") + 4
    length = struct.unpack(">I", data[start - 8 : start - 4])[0]
    channels = min(shape)
    assert len(zlib.decompress(data[start : start + length])) == 9 * (1 + 12 * channels)
    with pytest.raises(UsageError):
        picture.image(np.zeros(shape), 1)
