"""Traced steps: torch.profiler's events, read into operators, a timeline and memory."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tensight.records.timing import Fact, MemoryUse, OperatorTime, Owner, Span

MOST_SPANS = 6000
MOST_POINTS = 240
MOST_OWNERS = 12
MOST_OPERATORS = 400
STEP = "ProfilerStep#"
OURS = "tensight: "
NODE = "autograd::engine::evaluate_function: "
NS = 1e-9


@dataclass
class Traced:
    """What came out of the traced steps."""

    operators: tuple[OperatorTime, ...] = ()
    spans: tuple[Span, ...] = ()
    memory: MemoryUse = field(default_factory=MemoryUse)
    backward_nodes: list[int] = field(default_factory=list)
    facts: dict[str, Fact] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Event:
    """An operator or annotation on a thread."""

    name: str
    start: int  # nanoseconds
    length: int
    thread: int
    shapes: str = ""
    dtypes: str = ""
    flops: int = 0
    annotation: bool = False
    inner: int = 0  # nanoseconds of those inside
    depth: int = 0


# torch.profiler.record_function takes ten times as long as this, which small steps would feel
_quick: Any = getattr(torch._C._profiler, "_RecordFunctionFast", torch.profiler.record_function)


def mark(part: str) -> Any:
    """A context that marks a part of a step in the trace."""
    return _quick(OURS + part)


class Tracing:
    """Runs torch.profiler over the traced steps."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._profiler: Any = None
        self._running = False

    def start(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(
            activities=activities, record_shapes=True, profile_memory=True, with_flops=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profiler.start()
        self._profiler, self._running = profiler, True  # one that did not start is as good as none

    def stop(self) -> None:
        if self._running:
            self._running = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._profiler.stop()

    @property
    def profiler(self) -> Any:
        """torch.profiler's own object, for those who compare."""
        return self._profiler

    def result(self, steps: Sequence[int]) -> Traced:
        if self._profiler is None or self._running:
            return Traced(notes=("no step was traced: the script was over before",))
        notes: list[str] = []
        if self._file is not None:
            try:
                self._profiler.export_chrome_trace(str(self._file))
            except (OSError, RuntimeError) as error:
                notes.append(f"the trace could not be written: {error}")
        results = self._profiler.profiler.kineto_results
        events, memory = _events(results)
        _nest(events)
        marks = sorted((e.start, e.start + e.length) for e in events if e.name.startswith(STEP))
        facts: dict[str, Fact] = {"events": len(events), "traced_steps": len(marks) or len(steps)}
        facts.update(_sums(events))
        nodes = [sum(1 for e in events if e.name.startswith(NODE) and a <= e.start < b) for a, b in marks]
        try:
            use = _memory(results, memory, marks)
        except (RuntimeError, AttributeError) as error:
            use = MemoryUse()
            notes.append(f"memory was not read: {type(error).__name__}")
        return Traced(_operators(events), _spans(events, marks), use, nodes, facts, tuple(notes))


def _events(results: Any) -> tuple[list[Event], list[tuple[int, int]]]:
    """Events on processors' threads in order, and changes of allocated bytes."""
    events: list[Event] = []
    memory: list[tuple[int, int]] = []
    for raw in results.events():
        name = raw.name()
        if name == "[memory]":
            if raw.device_type() == torch.autograd.DeviceType.CPU or torch.cuda.is_available():
                memory.append((raw.start_ns(), raw.nbytes()))
            continue
        if raw.device_type() != torch.autograd.DeviceType.CPU or raw.is_async() or name == "[OutOfMemory]":
            continue
        annotation = bool(raw.is_user_annotation()) or name.startswith((OURS, STEP))
        event = Event(name, raw.start_ns(), raw.duration_ns(), raw.start_thread_id(), annotation=annotation)
        if not annotation:
            event.shapes = _shapes(raw.shapes())
            event.dtypes = ", ".join(dict.fromkeys(filter(None, map(_dtype, raw.dtypes()))))
            event.flops = raw.flops()
        events.append(event)
    events.sort(key=lambda event: (event.thread, event.start, -event.length))
    return events, memory


def _nest(events: list[Event]) -> None:
    """Each event's depth, and how much of it is spent in those inside; `events` are in order of thread and start."""
    stack: list[Event] = []
    for event in events:
        while stack and (
            stack[-1].thread != event.thread or stack[-1].start + stack[-1].length < event.start + event.length
        ):
            stack.pop()
        if stack:
            stack[-1].inner += event.length
        event.depth = len(stack)
        stack.append(event)


def _sums(events: list[Event]) -> dict[str, Fact]:
    """Seconds of each part of the traced steps as the trace has them, and of all operators."""
    parts: dict[str, int] = defaultdict(int)
    for event in events:
        if event.name.startswith(OURS):
            parts[f"traced.{event.name[len(OURS) :]}"] += event.length
    own = sum(max(0, event.length - event.inner) for event in events if not event.annotation)
    flops = sum(event.flops for event in events)
    return {**{name: value * NS for name, value in parts.items()}, "operator_seconds": own * NS, "flops": flops}


def _operators(events: list[Event]) -> tuple[OperatorTime, ...]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for event in events:
        if event.annotation:
            continue
        row = found.setdefault((event.name, event.shapes, event.dtypes), [0, 0, 0, 0])
        row[0] += 1
        row[1] += max(0, event.length - event.inner)
        row[2] += event.length
        row[3] += event.flops
    rows = [
        OperatorTime(name, shapes, dtypes, calls, own * NS, total * NS, flops)
        for (name, shapes, dtypes), (calls, own, total, flops) in found.items()
    ]
    rows.sort(key=lambda row: -row.seconds)
    if len(rows) > MOST_OPERATORS:
        rest = rows[MOST_OPERATORS:]
        rows = rows[:MOST_OPERATORS]
        rows.append(
            OperatorTime(
                f"{len(rest)} smaller ones",
                calls=sum(row.calls for row in rest),
                seconds=sum(row.seconds for row in rest),
                total=sum(row.seconds for row in rest),
                flops=sum(row.flops for row in rest),
            )
        )
    return tuple(rows)


def _spans(events: list[Event], marks: list[tuple[int, int]]) -> tuple[Span, ...]:
    """The first traced steps as a timeline; the smallest operators are left out when there are too many."""
    if not marks:
        return ()
    steps = marks[:2]
    first, last = steps[0][0], steps[-1][1]
    inside = [event for event in events if first <= event.start and event.start + event.length <= last]
    if len(inside) > MOST_SPANS:
        inside = sorted(inside, key=lambda event: -event.length)[:MOST_SPANS]
    threads = {thread: index for index, thread in enumerate(dict.fromkeys(event.thread for event in inside))}
    spans = []
    for event in sorted(inside, key=lambda event: event.start):
        kind, name = "operator", event.name
        if name.startswith(STEP):
            kind = "step"
        elif name.startswith(OURS):
            kind, name = "part", name[len(OURS) :]
        row = event.depth + 100 * threads[event.thread]
        spans.append(Span(name, (event.start - first) * NS, event.length * NS, row, kind))
    return tuple(spans)


def _memory(results: Any, changes: list[tuple[int, int]], marks: list[tuple[int, int]]) -> MemoryUse:
    if not changes or not marks:
        return MemoryUse()
    first, last = marks[0]
    held, seconds, series = 0, [0.0], [0]
    peak, peak_at = 0, first
    for at, change in sorted(changes):
        if not first <= at <= last:
            continue
        held += change
        seconds.append((at - first) * NS)
        series.append(held)
        if held > peak:
            peak, peak_at = held, at
    stride = max(1, len(series) // MOST_POINTS)
    kept = sorted({*range(0, len(series), stride), series.index(max(series)), len(series) - 1})
    owners = _owners(results, first, peak_at)
    return MemoryUse(tuple(seconds[i] for i in kept), tuple(series[i] for i in kept), peak, owners)


def _owners(results: Any, first: int, peak: int) -> tuple[Owner, ...]:
    """Who had allocated what was alive at the peak: by the operator, from outside in."""
    alive: dict[int, tuple[str, int]] = {}
    kind = torch._C._profiler._EventType.Allocation
    found: list[tuple[int, int, int, str]] = []
    waiting = [(node, "") for node in results.experimental_event_tree()]
    while waiting:
        node, owner = waiting.pop()
        if node.tag == kind:
            fields = node.extra_fields
            found.append((node.start_time_ns, fields.ptr, fields.alloc_size, owner))
            continue
        name = node.name
        inner = owner if name.startswith((OURS, STEP)) else (owner or name)
        waiting.extend((child, inner) for child in node.children)
    for at, pointer, size, owner in sorted(found):
        if at < first or at > peak:
            continue
        if size > 0:
            alive[pointer] = (owner or "outside operators", size)
        else:
            alive.pop(pointer, None)
    sums: dict[str, list[int]] = {}
    for owner, size in alive.values():
        row = sums.setdefault(owner, [0, 0])
        row[0] += size
        row[1] += 1
    rows = sorted(sums.items(), key=lambda item: -item[1][0])[:MOST_OWNERS]
    return tuple(Owner(name, size, count) for name, (size, count) in rows)


def _shapes(shapes: list[Any]) -> str:
    """
    >>> _shapes([[32, 64], [], [64]])
    '32x64, 64'
    """
    return ", ".join("x".join(str(n) for n in one) for one in shapes if one and not isinstance(one[0], list))[:160]


_SHORT = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
_SHORT |= {"long int": "int64", "long": "int64", "int": "int32", "bool": "bool", "unsigned char": "uint8"}


def _dtype(name: str) -> str:
    return "" if name.startswith("Scalar") or name.endswith("List") else _SHORT.get(name, name)
