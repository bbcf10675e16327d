"""Takes the profile of a MindSpore training: clocked steps, then steps under MindSpore's own profiler.

In PyNative mode data, forward, backward and update are told apart. A graph or a jit function runs them as one: that
time counts as forward, and a note says so.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mindspore
from mindspore import nn

from tensight.errors import FormatError, UsageError
from tensight.frameworks import mindspore_tables
from tensight.frameworks.mindspore.adapter import api_module
from tensight.frameworks.mindspore.networks import OPTIMIZERS, is_wrapper
from tensight.frameworks.mindspore.timing_cells import CellTimes
from tensight.frameworks.source import user_source
from tensight.frameworks.timing import Plan, now
from tensight.frameworks.timing_base import FEW, StepTiming
from tensight.records import Source
from tensight.records.timing import CompileTime, Fact, LoaderTime, OperatorTime, Part5, Profile, Window

Call = Callable[..., Any]
_MOST_WAITS = 5000
_GRAPH = 0  # mindspore.GRAPH_MODE


class MindSporeTiming(StepTiming):
    """Follows an unmodified script from step to step."""

    def __init__(
        self,
        plan: Plan,
        *,
        trace_file: Path | None = None,
        changes: Sequence[str] = (),
        go_on: bool = False,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        if changes:
            raise UsageError("--try and --try-change are for PyTorch: MindSpore offers no such switches from outside")
        super().__init__(plan, trace_file=trace_file, go_on=go_on, failed=failed)
        self._profiler: Any = None
        self._place = ""
        self._inside = 0
        self._known: set[int] = set()  # cells that were met
        self._cells = CellTimes()
        self._updates = self._compiled_calls = self._forwards = self._backwards = 0
        self._compiles: list[tuple[int, float]] = []  # step, seconds
        self._graphs: set[str] = set()
        self._weights = 0  # tensors that the largest cell trains
        self._waits: list[float] = []
        self._batches = 0
        self._feed: Source | None = None
        self._dataset: Any = None
        self._mode: Source | None = None
        self._sink: bool | None = None
        self._train: Source | None = None

    def attach(self) -> None:
        api = api_module()
        wrap = self._patches.wrap
        wrap(nn.Cell, "__call__", self._around_cell)
        if api is not None:
            wrap(type(api._pynative_executor), "grad", lambda original: self._around(original, "backward"))
            wrap(api._JitExecutor, "__call__", self._around_jit)
            for compiler in (api._JitExecutor, api._CellGraphExecutor):
                wrap(compiler, "compile", self._around_compile)
        iterators = sys.modules.get("mindspore.dataset.engine.iterators")
        if iterators is not None:
            wrap(iterators.Iterator, "__next__", self._around_next)
        model = getattr(sys.modules.get("mindspore.train.model"), "Model", None)
        if model is not None:
            wrap(model, "train", self._around_train)
        self._started()

    # parts of a step

    def _around(self, original: Call, part: Part5) -> Call:
        def around(*args: Any, **kwargs: Any) -> Any:
            if not self.on or not self.clock.mine():
                return original(*args, **kwargs)
            self.clock.enter(part)
            try:
                return original(*args, **kwargs)
            finally:
                self.clock.leave()
                self._backwards += part == "backward"

        return around

    def _around_cell(self, original: Call) -> Call:
        cells = self._cells

        def __call__(cell: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.on or not self.clock.mine():
                return original(cell, *args, **kwargs)
            if self._inside:
                return cells.call(original, cell, args, kwargs) if cells.on else original(cell, *args, **kwargs)
            self._begins()
            if id(cell) not in self._known:
                self._known.add(id(cell))
                with contextlib.suppress(Exception):
                    self._weights = max(self._weights, len(cell.trainable_params()))
            update = isinstance(cell, OPTIMIZERS)
            whole = is_wrapper(cell)
            if not self.clock.stack and not update:
                self.boundary()
            if whole:
                # PyNative's training cell calls network, gradient and optimizer itself: those are told apart inside
                self._inside = int(_mode() == "graph")
            else:
                self._inside = 1
            self.clock.enter("update" if update else "forward")
            try:
                if cells.on and not update:
                    cells.met(cell)
                    return cells.call(original, cell, args, kwargs)
                return original(cell, *args, **kwargs)
            finally:
                self._inside = 0
                self.clock.leave("rest" if update or whole else "forward")
                self._called(update, whole)

        return __call__

    def _called(self, update: bool, whole: bool) -> None:
        if update:
            self._updates += 1
            self._ending = True
        elif whole and _mode() == "graph":
            self._compiled_calls += 1
            self._ending = True
        elif not self.clock.stack:
            self._forwards += 1
            if not self._updates and not self._compiled_calls and not self._backwards and self._forwards > FEW:
                self._ending = True

    def _around_jit(self, original: Call) -> Call:
        def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.on or self._inside or not self.clock.mine():
                return original(executor, *args, **kwargs)
            if not self.clock.stack:
                self.boundary()
            self._inside = 1
            self.clock.enter("forward")
            try:
                return original(executor, *args, **kwargs)
            finally:
                self._inside = 0
                self.clock.leave()
                self._compiled_calls += 1
                if not self._updates and self._compiled_calls > FEW:
                    self._ending = True

        return __call__

    def _around_compile(self, original: Call) -> Call:
        def compile(*args: Any, **kwargs: Any) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            began = now()
            # the compiler reads the Python it finds: ours must not be there
            with self._patches.lifted():
                result = original(*args, **kwargs)
            graph = str(result[0] if isinstance(result, tuple) else result)
            if graph not in self._graphs:  # one that is known already is only looked up
                self._graphs.add(graph)
                self._compiles.append((self.steps.number, now() - began))
            return result

        return compile

    def _around_next(self, original: Call) -> Call:
        def __next__(iterator: Any) -> Any:
            if not self.on or not self.clock.mine():
                return original(iterator)
            if not self.clock.stack:
                self.boundary()
            self.clock.enter("data")
            began = now()
            try:
                batch = original(iterator)
            finally:
                self.clock.leave()
            self._batches += 1
            if self._feed is None:
                self._feed = user_source()
                self._dataset = getattr(iterator, "_Iterator__ori_dataset", None)
            if self.steps.window == "clock" and len(self._waits) < _MOST_WAITS:
                self._waits.append(now() - began)
            return batch

        return __next__

    def _around_train(self, original: Call) -> Call:
        def train(model: Any, *args: Any, **kwargs: Any) -> Any:
            sink = kwargs.get("dataset_sink_mode", args[3] if len(args) > 3 else False)
            self._sink, self._train = bool(sink), user_source()
            return original(model, *args, **kwargs)

        return train

    # steps and windows

    def _facts(self) -> dict[str, Any]:
        if self._mode is None:
            self._mode = user_source()
        batches, self._batches = self._batches, 0
        return {"batches": batches}

    def _open(self, window: Window | None) -> None:
        self._cells.on = window == "locate" and _mode() == "pynative"
        if window != "trace":
            return
        from mindspore import profiler

        self._place = tempfile.mkdtemp(prefix="tensight-profile-")
        self._profiler = profiler.profile(
            activities=[profiler.ProfilerActivity.CPU],
            on_trace_ready=profiler.tensorboard_trace_handler(self._place),
        )
        self._profiler.start()

    def _close(self) -> None:
        self._cells.on = False
        if self._profiler is not None:
            profiler, self._profiler = self._profiler, None
            profiler.stop()

    # the result

    def profile(self) -> Profile:
        operators, notes = self._operators()
        warm = next((time.step for time in self.steps.times if time.window != "warm"), 0)
        late = sum(step > warm for step, _ in self._compiles)
        facts: dict[str, Fact] = {
            "mode": _mode(),
            "compiled_calls": self._compiled_calls,
            "graphs_late": late,
            "sink": self._sink,
            "graph_kernel": _context("enable_graph_kernel"),
            "allreduce_split": _split(),
            "parameter_tensors": self._weights,
            "traced_steps": sum(time.window == "trace" for time in self.steps.times),
            "located_steps": sum(time.window == "locate" for time in self.steps.times),
            "operator_seconds": sum(one.seconds for one in operators),
        }
        for name, source in (("mode", self._mode), ("train", self._train)):
            if source is not None:
                facts |= {f"{name}.file": source.file, f"{name}.line": source.line, f"{name}.code": source.code}
        if self._sampled is not None:
            facts |= {"samples": self._sampled.samples, "sampling_seconds": self._sampled.seconds}
        if self._compiled_calls:
            notes.append("a graph runs forward, backward and update as one: all of it counts as forward")
        return Profile(
            framework="mindspore",
            version=str(mindspore.__version__),
            device=str(_context("device_target") or "cpu").lower(),
            steps=tuple(self.steps.times),
            operators=operators,
            lines=self._sampled.lines() if self._sampled is not None else (),
            modules=self._cells.records(),
            loaders=self._loaders(),
            compiling=CompileTime(sum(seconds for _, seconds in self._compiles), len(self._compiles)),
            collecting=self.pauses.record(),
            facts=facts,
            notes=tuple(notes),
        )

    def _loaders(self) -> tuple[LoaderTime, ...]:
        if self._feed is None:
            return ()
        clocked = [time for time in self.steps.times if time.window == "clock"]
        workers = getattr(self._dataset, "num_parallel_workers", None)
        size = getattr(self._dataset, "batch_size", 0)
        return (
            LoaderTime(
                type(self._dataset).__name__,
                self._feed,
                batch_size=size if isinstance(size, int) else 0,
                workers=workers if isinstance(workers, int) else 1,
                batches=len(self._waits),
                waits=tuple(self._waits),
                seconds=sum(self._waits),
                cpu=sum(time.data_cpu for time in clocked),
            ),
        )

    def _operators(self) -> tuple[tuple[OperatorTime, ...], list[str]]:
        """From the table that MindSpore's profiler writes; the trace is kept for other tools."""
        if not self._place:
            return (), ["no step was traced: the script was over before"]
        rows: list[OperatorTime] = []
        notes: list[str] = []
        place = Path(self._place)
        try:
            for file in place.rglob(mindspore_tables.CPU):
                rows += mindspore_tables.operators(file)
            for file in place.rglob(mindspore_tables.TRACE):
                if self._trace_file is not None:
                    with file.open("rb") as source, gzip.open(self._trace_file, "wb") as target:
                        shutil.copyfileobj(source, target)
            if not rows:
                notes.append("MindSpore's profiler gave no table of operators here")
        except (OSError, FormatError) as error:
            notes.append(f"what MindSpore's profiler wrote could not be read: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return tuple(sorted(rows, key=lambda row: -row.seconds)), notes


def _mode() -> str:
    return "graph" if _context("mode") == _GRAPH else "pynative"


def _split() -> bool | None:
    """Whether AllReduce is split by the user; None where that is not told."""
    with contextlib.suppress(Exception):
        return bool(mindspore.get_auto_parallel_context("all_reduce_fusion_config"))
    return None


def _context(name: str) -> Any:
    with contextlib.suppress(Exception):
        return mindspore.get_context(name)
    return None
