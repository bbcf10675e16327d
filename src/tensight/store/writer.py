"""Writes one rank's part of a run directory, inside the training process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tensight.errors import RunError
from tensight.records import (
    Coverage,
    Finding,
    Graph,
    Network,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    StepRecord,
    TensorInfo,
    Watchpoint,
)
from tensight.store import graphs, kept, layout, process
from tensight.store.appender import Appender, Skipped
from tensight.store.codec import encode, encode_step
from tensight.store.frame import FrameKind
from tensight.store.losses import Losses
from tensight.store.retention import Retention
from tensight.store.segment import IndexEntry
from tensight.store.state import Kept, State

MIB = 1 << 20
Trouble = Callable[[str, BaseException], None]


def _silent(where: str, error: BaseException) -> None:
    """Trouble nobody asked to hear of; it stands in `lost` all the same."""


class Writer:
    """Appends what is known of a run to its own part of the run directory.

    Making a writer may raise RunError; afterwards nothing does: what could not be written is reported to
    `on_trouble(where, error)`, stands in `lost`, and later records are still tried. After a fork the child's copy
    writes nothing. Methods may be called from several threads.

    `retention_bytes` bounds the log: older steps are thinned (docs/reference/run-directory.md says how) once half of it
    is used, and the oldest segments after the first go when all of it is. `tensor_bytes` bounds the kept tensors.
    """

    def __init__(
        self,
        folder: str | Path,
        info: RunInfo,
        *,
        on_trouble: Trouble = _silent,
        retention_bytes: int = 2048 * MIB,
        tensor_bytes: int = 8192 * MIB,
        segment_bytes: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.part_folder = layout.part(self.folder, info.rank)
        self._on_trouble = on_trouble
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._losses = Losses()
        self._pending: list[TensorInfo] = []
        self._closed = False
        self._tensor_bytes = tensor_bytes
        self._segment_bytes = segment_bytes or max(64 * 1024, min(16 * MIB, retention_bytes // 8))
        self._state = State(info, host=process.host(), process_started=process.started(info.pid or self._pid))
        if layout.segments(self.part_folder):
            raise RunError(f"{self.part_folder} already holds a recording: choose another run directory")
        try:
            self.part_folder.mkdir(parents=True, exist_ok=True)
            self._log = Appender(self.part_folder, self._header)
        except OSError as error:
            raise RunError(f"the run directory {self.folder} cannot be written: {error.strerror or error}") from error
        self._retention = Retention(self.part_folder, retention_bytes, self._important_steps)

    @property
    def lost(self) -> tuple[str, ...]:
        """What could not be recorded, and why; one sentence each."""
        return tuple(self._losses.words())

    def network(self, network: Network) -> None:
        """A model was found, or has changed."""
        if self._state.networks.get(network.name) != network:
            self._put("network", FrameKind.NETWORK, network, self._state.put_network)

    def part(self, part: Part) -> None:
        """An optimizer, loader, loss, scaler or scheduler was found, or has changed."""
        if self._state.parts.get(f"{part.kind}:{part.name}") != part:
            self._put("part", FrameKind.PART, part, self._state.put_part)

    def tensor(self, info: TensorInfo) -> None:
        """A tensor that observations will refer to. It is written together with what comes next."""
        if os.getpid() == self._pid:
            with self._lock:  # what came while another thread writes must not be taken for written
                self._pending.append(info)

    def watchpoint(self, watchpoint: Watchpoint) -> None:
        """A watchpoint was set, or changed."""
        self._put("watchpoint", FrameKind.WATCHPOINT, watchpoint, self._state.put_watchpoint)

    def watchpoint_removed(self, id: int) -> None:
        """A watchpoint was taken away."""
        self._put("removal of a watchpoint", FrameKind.WATCHPOINT_REMOVED, id, self._state.remove_watchpoint)

    def step(self, record: StepRecord) -> None:
        """A step has ended. When this returns, it survives a kill of the process."""
        if os.getpid() != self._pid or self._closed:
            return
        with self._lock:
            try:
                self._flush_tensors()
                frame = self._log.append(FrameKind.STEP, encode_step(record))
                entry = IndexEntry(record.step, frame.sequence, frame.offset, frame.size, len(record.hits), False)
                self._log.index.append(entry)
            except Exception as error:
                self._trouble("step", record.step, error)
            self._keep_house()

    def findings(self, findings: Sequence[Finding]) -> None:
        """The whole list of findings as it is now; it replaces the one before."""
        if list(findings) != self._state.findings:
            self._put("list of findings", FrameKind.FINDINGS, list(findings), self._state.put_findings, urgent=True)

    def replay(self, replay: Replay) -> None:
        """A step was run again."""
        self._put("replay", FrameKind.REPLAY, replay, self._state.put_replay, urgent=True)

    def coverage(self, coverage: Coverage) -> None:
        """What is watched is known, or has changed."""
        if coverage != self._state.coverage:
            self._put("coverage", FrameKind.COVERAGE, coverage, self._state.put_coverage)

    def crash(self, crash: Mapping[str, Any]) -> None:
        """The script ended by an exception: its type, message and place."""
        self._put("crash", FrameKind.CRASH, dict(crash), self._state.put_crash, urgent=True)

    def tensors(self, step: int, arrays: Mapping[int, np.ndarray[Any, Any]]) -> None:
        """Keep tensors of a step. Dtypes that NumPy lacks come as float32; their own is taken from the TensorInfo."""
        if os.getpid() != self._pid or self._closed or not arrays:
            return
        with self._lock:
            try:
                self._flush_tensors()
                known = self._state.tensors
                dtypes = {id: known[id].dtype for id in arrays if id in known}
                size = kept.write(layout.tensor_file(self.part_folder, step), step, arrays, dtypes)
                self.tensors_written(step, list(arrays), size)
            except Exception as error:
                self._trouble("tensors of step", step, error)

    def tensors_written(self, step: int, tensors: Sequence[int], size: int) -> None:
        """Another process of ours has written tensors of a step; its file has now this size."""
        if os.getpid() != self._pid or self._closed:
            return
        with self._lock:
            try:
                before = self._state.kept.get(step)
                ids = sorted({*tensors, *(before.tensors if before else ())})
                self._put("list of kept tensors", FrameKind.KEPT, Kept(step, tuple(ids), size), self._state.put_kept)
                self._drop_tensors(newest=step)
            except Exception as error:
                self._trouble("tensors of step", step, error)

    def graph(self, graph: Graph) -> None:
        """The structure of a step is known; it replaces the one of the same name."""
        if os.getpid() != self._pid or self._closed:
            return
        with self._lock:
            try:
                before = list(self._state.graphs)
                number = before.index(graph.name) if graph.name in before else len(before)
                info = graphs.write(self.part_folder, graph, number)
                self._put("graph", FrameKind.GRAPH, info, self._state.put_graph)
            except Exception as error:
                self._trouble("graph of step", graph.step, error)

    def end(self, end: RunEnd) -> None:
        """The run is over. What was lost is added to what the record says of it."""
        lost = tuple(dict.fromkeys((*end.lost, *self.lost)))
        record = msgspec.structs.replace(end, lost=lost)
        self._put("end of the run", FrameKind.END, record, self._state.put_end, urgent=True)

    def close(self) -> None:
        """Close the last segment; later calls do nothing."""
        if os.getpid() != self._pid or self._closed:
            return
        with self._lock:
            try:
                self._flush_tensors()
                self._retention.stop()
                self._log.close()
            except Exception as error:
                self._trouble("end of the last segment", None, error)
            self._closed = True

    def _put(
        self, what: str, kind: FrameKind, value: Any, keep: Callable[[Any, int], None], *, urgent: bool = False
    ) -> None:
        """Write a record and take it over, so that every later segment begins with it even if this write fails."""
        if os.getpid() != self._pid or self._closed:
            return
        with self._lock:
            try:
                self._flush_tensors()
                keep(value, self._log.next_sequence)
                self._log.append(kind, encode(value), urgent=urgent)
            except Exception as error:
                self._trouble(what, None, error)

    def _keep_house(self) -> None:
        """Begin the next segment when this one is full, and thin older ones a little."""
        try:
            if self._log.full(self._segment_bytes):
                self._log.rotate()
                self._retention.segment_closed(self._log.number)
            self._retention.work()
        except Exception as error:
            self._tell("next segment", error)  # nothing is lost: the next record begins a segment, or says why not

    def _flush_tensors(self) -> None:
        if self._pending:
            infos = self._pending
            self._state.put_tensors(infos, self._log.next_sequence)
            self._pending = []
            self._log.append(FrameKind.TENSORS, encode(infos))

    def _drop_tensors(self, newest: int) -> None:
        """Delete the oldest files of kept tensors until the rest is within bounds; findings keep theirs longest."""
        total = sum(file.size for file in self._state.kept.values())
        important = self._important_steps()
        for step in sorted(self._state.kept, key=lambda step: (step in important, step)):
            if total <= self._tensor_bytes:
                return
            if step == newest:
                continue
            total -= self._state.kept[step].size
            layout.tensor_file(self.part_folder, step).unlink(missing_ok=True)
            self._put("list of kept tensors", FrameKind.KEPT, Kept(step, ()), self._state.put_kept)

    def _important_steps(self) -> set[int]:
        steps = {finding.since_step for finding in self._state.findings}
        return steps | {replay.step for replay in self._state.replays}

    def _header(self) -> bytes:
        self._state.lost = list(self.lost)
        return encode(self._state)

    def _trouble(self, what: str, step: int | None, error: BaseException) -> None:
        self._losses.note(what, step, error)
        if not isinstance(error, Skipped):
            self._tell(what if step is None else f"{what} {step}", error)

    def _tell(self, where: str, error: BaseException) -> None:
        try:
            self._on_trouble(f"store: {where}", error)
        except Exception as failed:
            self._losses.note("report of trouble", None, failed)
