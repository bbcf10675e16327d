"""Corners of the statistics: compilers that fail, a kernel of another version, tensors that are none."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import numpy as np
import pytest

from tensight.errors import UsageError
from tensight.records import Needs, Stats
from tensight.stats import building, native, reference
from tensight.stats.joining import joined

needs_kernel = pytest.mark.usefixtures("kernel")


@pytest.fixture
def kernel() -> native._Kernel:
    return native._loaded()


def test_without_a_compiler_on_the_path_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert building.compiler() is None


def test_a_compiler_that_says_nothing_cannot_be_run_or_never_ends_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(building.BuildError, match="ended with 1 and said nothing"):
        building._run_together([[sys.executable, "-c", "raise SystemExit(1)"]])
    with pytest.raises(building.BuildError, match="could not be run"):
        building._run_together([[str(tmp_path / "none")]])
    monkeypatch.setattr(building, "_SECONDS_PER_COMMAND", 0.01)
    with pytest.raises(building.BuildError, match="timed out"):
        building._run_together([[sys.executable, "-c", "import time; time.sleep(600)"]])


def test_where_files_cannot_be_locked_the_kernel_is_built_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entered = []

    def refuse(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with building._alone(tmp_path):
        entered.append("a file system without locks")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with building._alone(tmp_path):
        entered.append("a system without locks")
    assert len(entered) == 2


def test_the_statistics_of_one_piece_are_its_own() -> None:
    one = Stats(2, positive=2, min=1.0, max=3.0, mean=2.0, abs_mean=2.0)
    assert joined([one]) is one


def test_bytes_without_a_meaning_have_no_statistics() -> None:
    with pytest.raises(UsageError, match="has no statistics"):
        reference.statistics(np.zeros(3, "V5"))


def test_a_kernel_of_another_version_is_refused(kernel: native._Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_INTERFACE", -1)
    with pytest.raises(OSError, match="another interface"):
        native._Kernel(kernel.path)


def test_a_kernel_without_memory_says_so(kernel: native._Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "many_held", lambda *_: -1)
    array = np.ones(4, np.float32)
    with pytest.raises(MemoryError, match="statistics of 1 tensor"):
        native.many([item(array)])


def item(array: np.ndarray) -> tuple[object, ...]:
    return (array.ctypes.data, "float32", array.size, 0)


@needs_kernel
def test_a_list_longer_than_any_before_gets_the_room_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_room", native._Room())
    arrays = [np.full(2, value, np.float32) for value in range(5000)]
    found = native.many([item(array) for array in arrays])
    assert [one.max for one in found] == [float(value) for value in range(5000)]


@needs_kernel
def test_needs_that_were_asked_for_once_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_encodings", {Needs(ranges=((0.0, float(end)),)): None for end in range(10_001)})
    native._encoded(Needs(ranges=((0.0, -1.0),)))
    assert len(native._encodings) == 1
