"""Runs the user's script as `python` would."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from tensight.errors import UsageError


@dataclass(frozen=True)
class Outcome:
    """How a script ended: its exit code, and the exception that left it, if any."""

    exit_code: int
    error: BaseException | None = None
    interrupted: bool = False


@dataclass(frozen=True)
class Program:
    """A script with its arguments, or a module (`-m`)."""

    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False

    @property
    def name(self) -> str:
        """What runs are called after.

        >>> Program("examples/train.py").name, Program("pkg.train", module=True).name
        ('train', 'train')
        """
        return self.target.rpartition(".")[2] if self.module else Path(self.target).stem

    def check(self) -> None:
        if self.module and not _has_module(self.target.partition(".")[0]):
            raise UsageError(f"-m {self.target}: there is no such module here; a script is named without -m")
        if not self.module and Path(self.target).is_dir():
            raise UsageError(f"{self.target}: is a folder; give a path to a Python file")
        if not self.module and not Path(self.target).is_file():
            raise UsageError(f"{self.target}: there is no such script; give a path to a Python file")

    def run(self) -> Outcome:
        """Run it in this process as `__main__`. Its exceptions are shown as Python shows them and do not pass."""
        run = self._run_module if self.module else self._run_script
        try:
            run()
        except SystemExit as stop:
            return Outcome(_exit_code(stop))
        except KeyboardInterrupt as error:
            _show(error)
            return Outcome(130, error, interrupted=True)
        except BaseException as error:
            _show(error)
            return Outcome(1, error)
        return Outcome(0)

    def _run_script(self) -> None:
        path = os.path.abspath(self.target)
        sys.argv = [self.target, *self.arguments]
        sys.path[0] = str(Path(path).resolve().parent)
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
        sys.modules["__main__"] = main
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec")
        exec(code, main.__dict__)

    def _run_module(self) -> None:
        sys.argv = [self.target, *self.arguments]
        sys.path[0] = os.getcwd()
        runpy.run_module(self.target, run_name="__main__", alter_sys=True)


def _has_module(name: str) -> bool:
    """Whether there is a module or package of this name; nothing of it is run to find out."""
    with contextlib.suppress(ValueError, ImportError):  # what is loaded and has no spec, or a name that is none
        return bool(name in sys.modules or PathFinder.find_spec(name, [os.getcwd()]) or importlib.util.find_spec(name))
    return False


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return int(stop.code) & 0xFF  # as the system passes it on; True is a number too
    print(stop.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """The traceback as it would have been without us: our own frames are left out wherever they stand."""
    seen: set[int] = set()
    _strip(error, seen)
    hook: Callable[..., object] = sys.excepthook
    hook(type(error), error, error.__traceback__)
    sys.stderr.flush()


def _strip(error: BaseException | None, seen: set[int]) -> None:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    entries: list[types.TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        if not _is_ours(trace.tb_frame.f_code.co_filename):
            entries.append(trace)
        trace = trace.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = kept
    _strip(error.__cause__, seen)
    _strip(error.__context__, seen)


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _is_ours(file: str) -> bool:
    demo = file.startswith(os.path.join(PACKAGE, "cli", "demos"))
    return (file.startswith(PACKAGE) and not demo) or file.startswith("<frozen runpy") or file == runpy.__file__
