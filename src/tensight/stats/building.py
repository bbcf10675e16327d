"""Where the compiled kernel is, and how it comes into being.

The library's name holds a hash of its sources and options, so a stale one is never loaded. It is looked for beside
its sources, where installing the package puts it, and then in the user's cache, where it is built on first need.
A build happens in a folder of its own and ends with a rename: builders at the same time cannot disturb each other.

This file uses the standard library alone: `setup.py` loads it before anything else is installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "_kernel"

# Never -ffast-math: loading a library that was linked with it makes the whole process flush subnormals to zero.
# No contraction either: a fused multiply-add would round tolerances differently from the reference.
OPTIONS = (
    "-std=c++17",
    "-O3",
    "-fno-fast-math",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fPIC",
    "-fvisibility=hidden",
)
VARIANT_OPTIONS = {
    "pass_avx2.cpp": ("-mavx2", "-mfma", "-mf16c"),
    "pass_avx512.cpp": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mf16c", "-mprefer-vector-width=512"),
}

_SECONDS_PER_COMMAND = 300.0
_FAILURE_HOLDS = 24 * 3600.0


class BuildError(Exception):
    """The kernel could not be compiled; the message says why in one sentence."""


def library_name() -> str:
    """File name of the library made of these sources on this kind of machine."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.glob("*.[ch]*")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for words in (OPTIONS, *VARIANT_OPTIONS.values(), (platform.machine(), sys.platform)):
        digest.update(" ".join(words).encode() + b"\0")
    return f"kernel-{digest.hexdigest()[:16]}.so"


def cache_folder() -> Path:
    """The user's own folder for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "tensight"


def compiler() -> list[str] | None:
    """The C++ compiler as a command: `CXX` when set, else what is on the path."""
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return named if shutil.which(named[0]) else None
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    return None


def find() -> Path | None:
    """The library, when it is already there."""
    name = library_name()
    for folder in (SOURCES, cache_folder()):
        if (folder / name).is_file():
            return folder / name
    return None


def find_or_build() -> Path:
    """The library, compiled now if need be.

    Raises:
        BuildError: it is not there and cannot be made. A failure of the compiler is remembered for a day, so that not
            every start of a training pays for it again.
    """
    found = find()
    if found is not None:
        return found
    command = compiler()
    if command is None:
        raise BuildError("it is not built, and there is no C++ compiler (set CXX, or install g++ or clang++)")
    target = cache_folder() / library_name()
    failure = target.with_suffix(".failed")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            if not target.is_file():
                _refuse_if_failed_lately(failure, command)
                _build_and_remember(target, failure, command)
    except OSError as error:
        raise BuildError(f"it is not built, and {target.parent} cannot hold it ({error})") from error
    return target


def build(target: Path, command: list[str] | None = None) -> None:
    """Compile the sources into `target`, which appears at once and whole.

    Raises:
        BuildError: there is no compiler, or it failed.
    """
    command = command or compiler()
    if command is None:
        raise BuildError("there is no C++ compiler (set CXX, or install g++ or clang++)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as folder:
        objects = []
        commands = []
        for source in sorted(SOURCES.glob("*.cpp")):
            objects.append(str(Path(folder) / f"{source.stem}.o"))
            variant = VARIANT_OPTIONS.get(source.name, ()) if platform.machine() in ("x86_64", "AMD64") else ()
            commands.append([*command, *OPTIONS, *variant, "-c", str(source), "-o", objects[-1]])
        _run_together(commands)
        made = Path(folder) / target.name
        _run_together([[*command, "-shared", "-fvisibility=hidden", *objects, "-o", str(made)]])
        os.replace(made, target)


def _run_together(commands: list[list[str]]) -> None:
    running: list[subprocess.Popen[str]] = []
    quiet = subprocess.DEVNULL
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE, text=True))
        for command, process in zip(commands, running):
            _, complaint = process.communicate(timeout=_SECONDS_PER_COMMAND)
            if process.returncode != 0:
                lines = [line for line in complaint.splitlines() if "error" in line] or complaint.splitlines()
                said = lines[0].strip() if lines else f"it ended with {process.returncode} and said nothing"
                raise BuildError(f"{command[0]} failed: {said}")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"the compiler could not be run: {error}") from error
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def _refuse_if_failed_lately(failure: Path, command: list[str]) -> None:
    try:
        with_command, _, message = failure.read_text("utf-8").partition("\n")
        recent = time.time() - failure.stat().st_mtime < _FAILURE_HOLDS
    except FileNotFoundError:
        return
    if recent and with_command == shlex.join(command):
        raise BuildError(f"{message} (remembered in {failure}; delete it to try again)")


def _build_and_remember(target: Path, failure: Path, command: list[str]) -> None:
    try:
        build(target, command)
    except BuildError as error:
        failure.write_text(f"{shlex.join(command)}\n{error}", "utf-8")
        raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process of this user build at a time, where the system has file locks; the others then find it built."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder / "building.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # some network file systems have none; the rename still keeps builders apart
            pass
        yield
