"""What torch.compile did: seconds, graphs, breaks and functions that were compiled again, with reasons and lines."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import defaultdict
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.timing_lines import user_line
from tensight.records import Source
from tensight.records.timing import Break, CompileTime, Recompile

_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_MOST = 40
_LONGEST = 300


class Compiling:
    """Reads torch.compile's own counts; it has none before something is compiled."""

    def __init__(self) -> None:
        self._warm = 0
        self._patches: Patches | None = None
        self._asked: dict[tuple[str, int], Source] = {}  # the line that had a function compiled, by its place

    def attach(self, patches: Patches) -> None:
        self._patches = patches
        patches.wrap(torch, "compile", self._around)
        patches.wrap(torch.nn.Module, "compile", self._around)

    def _around(self, original: Any) -> Any:
        def compile(*args, **kwargs):
            with contextlib.suppress(Exception):
                self.stay_out()
                self._note(args[0] if args else kwargs.get("model"))
            return original(*args, **kwargs)

        return compile

    def _note(self, what: Any) -> None:
        """Where something is given to torch.compile; `torch.compile(dynamic=True)` as a decorator says it later."""
        if what is None:
            return
        code = getattr(getattr(what, "forward", what), "__code__", None)
        line = user_line(sys._getframe(2))
        if code is not None and line is not None:
            self._asked.setdefault((code.co_filename, code.co_firstlineno), source_of(*line))

    def stay_out(self) -> None:
        """Our functions around the user's are not for torch.compile to compile; what they call is."""
        from torch._C._dynamo.eval_frame import set_code_exec_strategy
        from torch._dynamo.types import FrameAction, FrameExecStrategy

        around = FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT)
        for function in self._patches.functions() if self._patches is not None else ():
            set_code_exec_strategy(function.__code__, around)

    def used(self) -> bool:
        return bool(_metrics())

    def warm(self) -> None:
        """The warm-up is over: what is compiled from now on is compiled late."""
        self._warm = len(_metrics())

    def record(self) -> CompileTime:
        if "torch._dynamo" not in sys.modules:
            return CompileTime()
        metrics = _metrics()
        seconds = sum(_seconds(entry) for entry in metrics)
        again: dict[tuple[str, int, str], list[tuple[int, Any]]] = defaultdict(list)
        for index, entry in enumerate(metrics):
            reason = getattr(entry, "recompile_reason", None)
            if reason:
                place = (entry.co_filename or "", entry.co_firstlineno or 0, entry.co_name or "")
                again[place].append((index, entry))
        recompiles = [
            Recompile(
                function=name,
                reason=_short(str(entries[-1][1].recompile_reason)),
                count=len(entries),
                seconds=sum(_seconds(entry) for _, entry in entries),
                source=source_of(file, line, name) if file else None,
                late=sum(index >= self._warm for index, _ in entries),
                asked=self._asked.get((file, line)),
            )
            for (file, line, name), entries in again.items()
        ]
        recompiles.sort(key=lambda one: -one.count)
        return CompileTime(seconds, _graphs(), (*_skipped(metrics), *_breaks()), tuple(recompiles[:_MOST]))


def _metrics() -> list[Any]:
    if "torch._dynamo" not in sys.modules:
        return []
    with contextlib.suppress(Exception):
        from torch._dynamo.utils import get_compilation_metrics

        return list(get_compilation_metrics())
    return []


def _seconds(entry: Any) -> float:
    value = getattr(entry, "entire_frame_compile_time_s", None)
    if value is None:
        value = (getattr(entry, "duration_us", None) or 0) / 1e6
    return float(value or 0.0)


def _graphs() -> int:
    with contextlib.suppress(Exception):
        from torch._dynamo.utils import counters

        return int(counters["stats"].get("unique_graphs", 0))
    return 0


def _skipped(metrics: list[Any]) -> tuple[Break, ...]:
    """Functions that torch.compile has given up, as for a break inside a loop: they run as if never compiled."""
    found: dict[tuple[str, int], Break] = {}
    for entry in metrics:
        reason, file = getattr(entry, "fail_reason", None), getattr(entry, "fail_user_frame_filename", None)
        if reason and file and is_user_file(file):
            line = int(getattr(entry, "fail_user_frame_lineno", None) or 1)
            name = str(getattr(entry, "co_name", None) or "a function")
            found.setdefault((file, line), Break(_short(str(reason)), 1, source_of(file, line), name))
    return tuple(found.values())[:_MOST]


def _breaks() -> tuple[Break, ...]:
    found: list[Break] = []
    with contextlib.suppress(Exception):
        from torch._dynamo.utils import counters, graph_break_reasons

        places: dict[str, Source | None] = {}
        for reason in graph_break_reasons:
            text = str(reason.reason)
            frames = [frame for frame in reversed(reason.user_stack or []) if is_user_file(frame.filename)]
            if frames:
                places.setdefault(text[:80], source_of(frames[0].filename, frames[0].lineno or 1, frames[0].name))
        for text, count in counters["graph_break"].items():
            source = places.get(text[:80]) or _line_in(text)
            found.append(Break(_short(text), int(count), source))
        if not found:
            found = [Break(_short(text), 1, source) for text, source in places.items()]
    found.sort(key=lambda one: -one.count)
    return tuple(found[:_MOST])


def _line_in(text: str) -> Source | None:
    for file, line in reversed(_USER_LINE.findall(text)):
        if is_user_file(file):
            return source_of(file, int(line))
    return None


def _short(text: str) -> str:
    """What a user needs of torch.compile's words: not the debug context, and no half words at the end.

    >>> _short("Unsupported print\\n  Explanation: no.\\n\\n  Developer debug context: call_function print")
    'Unsupported print Explanation: no.'
    """
    text = text.partition("Developer debug context")[0]
    whole = " ".join(line.strip() for line in text.strip().splitlines() if line.strip())
    return whole if len(whole) <= _LONGEST else whole[:_LONGEST].rpartition(" ")[0] + " …"
