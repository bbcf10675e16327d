"""What a part says about its run beside the steps: the same object is kept by writer and reader."""

from __future__ import annotations

from typing import Any

import msgspec

from tensight.records import (
    Coverage,
    Finding,
    GraphInfo,
    Network,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    TensorInfo,
    Watchpoint,
)
from tensight.store.codec import decode
from tensight.store.frame import FrameKind


class Kept(msgspec.Struct, frozen=True):
    """Tensors of a step that were written to a file; none when the file was dropped again."""

    step: int
    tensors: tuple[int, ...]
    size: int = 0


class State(msgspec.Struct):
    """Everything but the steps. Each segment begins with it, so earlier segments can be dropped.

    `changed` tells for each noun the sequence number of its last change.
    """

    info: RunInfo
    host: str = ""
    process_started: int = 0
    networks: dict[str, Network] = {}
    parts: dict[str, Part] = {}
    tensors: dict[int, TensorInfo] = {}
    watchpoints: dict[int, Watchpoint] = {}
    findings: list[Finding] = []
    replays: list[Replay] = []
    coverage: Coverage | None = None
    crash: dict[str, Any] | None = None
    kept: dict[int, Kept] = {}
    graphs: dict[str, GraphInfo] = {}
    end: RunEnd | None = None
    lost: list[str] = []
    changed: dict[str, int] = {}

    def put_network(self, network: Network, sequence: int) -> None:
        self.networks[network.name] = network
        self.changed["networks"] = sequence

    def put_part(self, part: Part, sequence: int) -> None:
        self.parts[f"{part.kind}:{part.name}"] = part
        self.changed["parts"] = sequence

    def put_tensors(self, infos: list[TensorInfo], sequence: int) -> None:
        self.tensors.update((info.id, info) for info in infos)
        self.changed["tensors"] = sequence

    def put_watchpoint(self, watchpoint: Watchpoint, sequence: int) -> None:
        self.watchpoints[watchpoint.id] = watchpoint
        self.changed["watchpoints"] = sequence

    def remove_watchpoint(self, id: int, sequence: int) -> None:
        self.watchpoints.pop(id, None)
        self.changed["watchpoints"] = sequence

    def put_findings(self, findings: list[Finding], sequence: int) -> None:
        self.findings = findings
        self.changed["findings"] = sequence

    def put_replay(self, replay: Replay, sequence: int) -> None:
        if replay not in self.replays:  # it stands in a segment's header too when that was begun for it
            self.replays.append(replay)
        self.changed["replays"] = sequence

    def put_coverage(self, coverage: Coverage, sequence: int) -> None:
        self.coverage = coverage
        self.changed["coverage"] = sequence

    def put_crash(self, crash: dict[str, Any], sequence: int) -> None:
        self.crash = crash
        self.changed["crash"] = sequence

    def put_kept(self, kept: Kept, sequence: int) -> None:
        if kept.tensors:
            self.kept[kept.step] = kept
        else:
            self.kept.pop(kept.step, None)
        self.changed["kept"] = sequence

    def put_graph(self, graph: GraphInfo, sequence: int) -> None:
        self.graphs[graph.name] = graph
        self.changed["graphs"] = sequence

    def put_end(self, end: RunEnd, sequence: int) -> None:
        self.end = end
        self.changed["end"] = sequence

    def apply(self, kind: int, payload: memoryview, sequence: int) -> None:
        """Take over what a frame says; kinds that are not known are passed over."""
        if kind == FrameKind.NETWORK:
            self.put_network(decode(payload, Network), sequence)
        elif kind == FrameKind.PART:
            self.put_part(decode(payload, Part), sequence)
        elif kind == FrameKind.TENSORS:
            self.put_tensors(decode(payload, list[TensorInfo]), sequence)
        elif kind == FrameKind.WATCHPOINT:
            self.put_watchpoint(decode(payload, Watchpoint), sequence)
        elif kind == FrameKind.WATCHPOINT_REMOVED:
            self.remove_watchpoint(decode(payload, int), sequence)
        elif kind == FrameKind.FINDINGS:
            self.put_findings(decode(payload, list[Finding]), sequence)
        elif kind == FrameKind.REPLAY:
            self.put_replay(decode(payload, Replay), sequence)
        elif kind == FrameKind.COVERAGE:
            self.put_coverage(decode(payload, Coverage), sequence)
        elif kind == FrameKind.CRASH:
            self.put_crash(decode(payload, dict[str, Any]), sequence)
        elif kind == FrameKind.KEPT:
            self.put_kept(decode(payload, Kept), sequence)
        elif kind == FrameKind.GRAPH:
            self.put_graph(decode(payload, GraphInfo), sequence)
        elif kind == FrameKind.END:
            self.put_end(decode(payload, RunEnd), sequence)
