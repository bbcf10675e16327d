"""How the library is found, built once, and done without."""

from __future__ import annotations

import ctypes
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from tensight.errors import UsageError
from tensight.stats import building, native, reference, statistics


@pytest.fixture
def small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources that compile in no time, a cache of their own, and a log of what the compiler was asked."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "answer.cpp").write_text(
        'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
    )
    monkeypatch.setattr(building, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return sources


def use_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, last_line: str) -> Path:
    """Put a script in the compiler's place; each call leaves a line in the log that is given back."""
    log = folder / "calls.log"
    log.touch()
    script = folder / "compiler.sh"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\n{last_line}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(script))
    return log


def real_compiler() -> str:
    found = building.compiler()
    assert found is not None, "these tests need a C++ compiler"
    return found[0]


def test_the_library_is_built_once_into_the_cache_and_works(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = use_compiler(tmp_path, monkeypatch, f'exec {real_compiler()} "$@"')
    library = building.find_or_build()
    assert library == tmp_path / "cache" / "tensight" / building.library_name()
    assert ctypes.CDLL(str(library)).answer() == 42
    calls = log.read_text()
    assert building.find_or_build() == library
    assert log.read_text() == calls
    assert [path.name for path in library.parent.iterdir() if path.name.startswith(".building")] == []


def test_changed_sources_are_another_library(small_sources: Path) -> None:
    name = building.library_name()
    (small_sources / "answer.cpp").write_text("int answer;\n")
    assert building.library_name() != name


def test_a_library_beside_its_sources_is_preferred(small_sources: Path) -> None:
    beside = small_sources / building.library_name()
    building.build(beside)
    assert building.find_or_build() == beside


def test_builders_at_the_same_time_all_get_a_whole_library(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = use_compiler(tmp_path, monkeypatch, f'exec {real_compiler()} "$@"')
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(building.find_or_build())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert ctypes.CDLL(str(found[0])).answer() == 42
    assert len(log.read_text().splitlines()) == 2  # compiled and linked once


def test_a_failed_build_says_why_and_is_not_tried_at_every_start(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = real_compiler()
    log = use_compiler(tmp_path, monkeypatch, 'echo "answer.cpp:1: error: no luck today" >&2; exit 1')
    with pytest.raises(building.BuildError, match="no luck today"):
        building.find_or_build()
    calls = log.read_text()
    with pytest.raises(building.BuildError, match=r"no luck today.*remembered"):
        building.find_or_build()
    assert log.read_text() == calls
    monkeypatch.setenv("CXX", another)  # another compiler is another chance
    assert building.find_or_build().is_file()


def test_without_a_compiler_the_reason_names_the_remedy(small_sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/compiler")
    with pytest.raises(building.BuildError, match="install g\\+\\+"):
        building.find_or_build()
    with pytest.raises(building.BuildError, match="no C\\+\\+ compiler"):
        building.build(small_sources / "never.so")


def test_a_cache_that_cannot_be_written_is_a_reason_too(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(building.BuildError, match="cannot hold it"):
        building.find_or_build()


def test_arithmetic_stays_as_the_standard_has_it() -> None:
    options = {option for group in (building.OPTIONS, *building.VARIANT_OPTIONS.values()) for option in group}
    assert "-fno-fast-math" in options
    assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-march=native", "-fopenmp"} & options


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel had not been asked for yet."""
    monkeypatch.setattr(native, "_kernel", None)
    monkeypatch.setattr(native, "_reason", None)


@pytest.mark.usefixtures("unloaded")
def test_switched_off_it_is_not_there_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSIGHT_NATIVE", "off")
    assert native.available() is False
    assert "TENSIGHT_NATIVE=off" in native.describe()
    with pytest.raises(UsageError, match="TENSIGHT_NATIVE=off"):
        native.contiguous(0, "float32", 0)


@pytest.mark.usefixtures("unloaded")
def test_without_the_kernel_arrays_still_have_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSIGHT_NATIVE", "off")
    array = np.array([1.0, np.nan, -3.0], np.float32)
    assert statistics(array) == reference.statistics(array)


@pytest.mark.usefixtures("unloaded", "small_sources")
def test_a_library_of_another_interface_is_not_used() -> None:
    assert native.available() is False
    assert "tensight_abi" in native.describe()


@pytest.mark.usefixtures("unloaded")
def test_instructions_can_be_forced_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSIGHT_INSTRUCTIONS", "abacus")
    assert native.available() is False
    assert "abacus" in native.describe()
    monkeypatch.setattr(native, "_reason", None)
    library = building.find()
    assert library is not None
    monkeypatch.setenv("TENSIGHT_INSTRUCTIONS", native._Kernel(os.fspath(library)).runs_here[-1])
    try:
        assert native.instructions() == os.environ["TENSIGHT_INSTRUCTIONS"]
    finally:
        native.use_instructions(None)
