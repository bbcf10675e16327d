"""Makes a run out of a dump: statistics of every tensor, the recommended conditions, the graph, the values."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

import tensight
from tensight.dump.concluding import Conclusions
from tensight.dump.copying import copy_tensors
from tensight.dump.graphs import record as graph_record
from tensight.dump.measuring import Request, measured_by
from tensight.dump.readers import scan_foreign
from tensight.dump.readers.base import Dumped, Found, Raw
from tensight.errors import TensightError
from tensight.records import (
    Coverage,
    Module,
    Network,
    Observation,
    Parameter,
    RunEnd,
    RunInfo,
    Stats,
    StepRecord,
    TensorInfo,
)
from tensight.store import Writer, layout, links
from tensight.watchpoints import recommended
from tensight.watchpoints.checker import Checker
from tensight.workers import Here, Workers

Progress = Callable[[int, int], None]
_PARAMETERS = ("weight", "frozen", "buffer")


class Imported(NamedTuple):
    """A run made of a dump; `troubles` are the sentences about what could not be read."""

    folder: Path
    troubles: tuple[str, ...]
    tensors: int
    steps: int
    ranks: int
    formats: tuple[str, ...]


def _quiet(done: int, of: int) -> None:
    """Nobody watches."""


def import_dump(
    path: str | Path,
    folder: str | Path | Callable[[], Path],
    *,
    in_place: bool = False,
    progress: Progress = _quiet,
    workers: Workers | None = None,
) -> Imported:
    """Read a dump of any known format and write it as a run to `folder`, or to one that is made when there is a dump.

    `in_place` leaves the values where they are, which is only good for a run in Tensight's own cache. `workers` take
    the statistics, which is where the time goes; what is written does not depend on who they are.
    """
    found, tensors = scan_foreign(path)
    chosen = _chosen(tensors)
    target = folder() if callable(folder) else Path(folder)
    ranks = sorted({one.rank for one in chosen})
    _missing(ranks, found)
    by_rank: dict[int, list[Dumped]] = {rank: [] for rank in ranks}
    for one in chosen:
        by_rank[one.rank].append(one)
    # ranks are introduced as the measuring gets to them, and written as it comes back
    parts = {rank: _Rank(target, rank, len(ranks), found, in_place, by_rank[rank]) for rank in ranks}
    wanted = (request for part in parts.values() for request in part.requests())
    measured = measured_by(workers or Here(), wanted, found.root)
    done = 0
    try:
        for part in parts.values():
            part.open()
            for step in sorted(part.by_step):
                part.step(step, measured)
                done += len(part.by_step[step])
                progress(done, len(chosen))
            part.close()
    finally:
        measured.close()
    steps = {step for part in parts.values() for step in part.by_step}
    troubles = list(found.troubles)
    if found.left_out:
        troubles.append(f"{found.left_out} more such sentences were left out")
    return Imported(target, tuple(troubles), len(chosen), len(steps), len(ranks), tuple(found.formats))


def _chosen(tensors: Iterable[Dumped]) -> list[Dumped]:
    """Each tensor of a step once: values win over statistics, later files over earlier ones."""
    best: dict[tuple[int, int, str, str, str, str], Dumped] = {}
    for one in tensors:
        key = (one.rank, one.step, one.info.network, one.text, one.info.slot, one.info.kind)
        known = best.get(key)
        if known is None:
            best[key] = one
        elif known.raw is None and one.raw is not None:
            best[key] = one._replace(stats=known.stats)
        elif one.raw is None and known.raw is not None:
            best[key] = known._replace(stats=one.stats)
        elif one.time >= known.time:
            best[key] = one
    return list(best.values())


def _missing(ranks: Sequence[int], found: Found) -> None:
    absent = [rank for rank in range(max(ranks)) if rank not in ranks] if max(ranks) < 1 << 20 else []
    if absent:
        some = ", ".join(map(str, absent[:10])) + (", …" if len(absent) > 10 else "")
        found.trouble(f"the dump has no data of rank{'s' if len(absent) > 1 else ''} {some}; the others were read")


class _Rank:
    """Writes one rank of the run."""

    def __init__(
        self, folder: Path, rank: int, ranks: int, found: Found, in_place: bool, tensors: Sequence[Dumped]
    ) -> None:
        self._rank = rank
        self._found = found
        self._in_place = in_place
        self._folder = folder
        self._tensors = tensors
        self._info = RunInfo(
            id=folder.name,
            command=("tensight", "import", str(found.root)),
            started=time.time(),
            framework=found.framework,
            framework_version=found.version,
            tensight=tensight.__version__,
            rank=rank,
            ranks=max(ranks, rank + 1),
            level="op",
        )
        self._points = list(recommended.watchpoints(first_id=1))
        self._checker = Checker(self._points, on_error=lambda where, error: None)
        self._infos: dict[tuple[str, str, str, str], TensorInfo] = {}
        self._known: dict[int, TensorInfo] = {}
        self._weights: dict[int, tuple[int, Raw]] = {}  # step and values of the last look, by tensor
        self.by_step: dict[int, list[Dumped]] = {}
        for one in tensors:
            self.by_step.setdefault(one.step, []).append(one)

    def _settle(self) -> None:
        """Give every tensor its number, and every step its order."""
        if self._infos:
            return
        order = self._found.orders.get(self._rank, {})
        for one in sorted(self._tensors, key=lambda one: (order.get(one.text, 1 << 60), one.time)):
            key = _key(one)
            if key not in self._infos:
                info = msgspec.structs.replace(one.info, id=len(self._infos))
                self._infos[key] = info
                self._known[info.id] = info
        for tensors in self.by_step.values():
            timed = len({one.time for one in tensors}) > 1
            tensors.sort(key=lambda one: (one.time, 0) if timed else (0, order.get(one.text, 1 << 60)))

    def requests(self) -> Iterator[Request]:
        """What must be measured, in the order in which `step` asks for it."""
        self._settle()
        for step in sorted(self.by_step):
            for one in self.by_step[step]:
                if _is_whole(one):
                    yield self._request(one, step)

    def _request(self, one: Dumped, step: int) -> Request:
        assert one.raw is not None  # it is whole
        info = self._infos[_key(one)]
        before = None
        if info.kind == "weight":
            last = self._weights.get(info.id)
            before = last[1] if last is not None and last[0] == step - 1 else None
            self._weights[info.id] = (step, one.raw)
        return Request(one.raw, self._checker.needs(info), before)

    def open(self) -> None:
        """Begin the recording: models, tensors, graphs."""
        self._settle()
        tensors = self._tensors
        self._writer = Writer(self._folder, self._info, retention_bytes=1 << 50, tensor_bytes=1 << 60)
        for point in self._points:
            self._writer.watchpoint(point)
        networks = networks_of(tensors)
        for network in networks:
            self._writer.network(network)
        for info in self._known.values():
            self._writer.tensor(info)
        self._conclusions = Conclusions(networks, self._known, self._rank)
        name_of_most = Counter(one.info.network for one in tensors).most_common(1)[0][0]
        for (rank, name), graph in self._found.graphs.items():
            if rank == self._rank:
                first = min(one.step for one in tensors)
                self._writer.graph(graph_record(name, first, graph, name_of_most or "network"))

    def step(self, step: int, measured: Iterator[Stats | str]) -> None:
        tensors = self.by_step[step]
        seen: list[Observation] = []
        kept: dict[int, Raw] = {}
        for one in tensors:
            info = self._infos[_key(one)]
            stats = one.stats
            if _is_whole(one):
                answer = next(measured)
                if isinstance(answer, str):
                    self._found.trouble(answer)
                else:
                    stats = answer
            if stats is not None:
                shape = None if one.info.shape == info.shape else one.info.shape
                seen.append(Observation(info.id, len(seen), stats, info.phase, shape=shape))
                if one.raw is not None:
                    kept[info.id] = one.raw
        hits = self._checker.check(step, seen, self._known, rank=self._rank, updates=step)
        losses = [o.stats.mean for o in seen if self._known[o.tensor].kind == "loss" and o.stats.count == 1]
        values = [math.nan if value is None else value for value in losses]
        last = tensors[-1].time / 1e6
        record = StepRecord(
            step=step,
            time=last if 1e9 < last < 1e11 else 0.0,
            seconds=0.0,
            loss=sum(values) / len(values) if values else None,
            losses=tuple(values),
            observations=tuple(seen),
            hits=tuple(hits),
        )
        self._writer.step(record)
        self._conclusions.step(record)
        self._keep(step, kept)

    def close(self) -> None:
        count = len(self._known)
        self._writer.coverage(Coverage(tensors=count, watched=count))
        self._writer.findings(self._conclusions.findings())
        steps = len(self.by_step)
        self._writer.end(RunEnd("finished", time.time(), None, steps, lost=tuple(self._found.troubles)))
        self._writer.close()

    def _keep(self, step: int, kept: dict[int, Raw]) -> None:
        if not kept:
            return
        path = layout.tensor_file(self._writer.part_folder, step)
        try:
            if self._in_place:
                size = links.write(path, {id: _link(raw, self._known[id].dtype) for id, raw in kept.items()})
            else:
                size = copy_tensors(path, step, kept, {id: self._known[id].dtype for id in kept})
            self._writer.tensors_written(step, list(kept), size)
        except (OSError, TensightError) as error:
            self._found.trouble(f"the values of step {step} could not be kept: {error}")


def networks_of(tensors: Iterable[Dumped]) -> list[Network]:
    """Models as far as names of tensors tell: modules by their paths, parameters by their names."""
    modules: dict[str, dict[str, Module]] = {}
    parameters: dict[str, dict[str, Parameter]] = {}
    for one in tensors:
        info = one.info
        inside = modules.setdefault(info.network, {"": Module("", info.network or "network")})
        pieces = info.node.split(".") if info.node else []
        for depth in range(1, len(pieces) + 1):
            path = ".".join(pieces[:depth])
            telling = depth == len(pieces) and info.kind not in (*_PARAMETERS, "activation")
            type = info.type if telling and "." not in info.type else ""  # 'aten.relu' is an operator
            if path not in inside or (type and not inside[path].type):
                inside[path] = Module(path, type)
        if info.kind in _PARAMETERS:
            parameters.setdefault(info.network, {}).setdefault(
                info.name,
                Parameter(
                    info.name,
                    info.shape,
                    info.dtype,
                    trainable=info.kind == "weight",
                    buffer=info.kind == "buffer",
                    role="bias" if info.slot == "bias" else "buffer" if info.kind == "buffer" else "weight",
                    module=info.node,
                ),
            )
    return [
        Network(name or "network", name or "network", tuple(found.values()), tuple(parameters.get(name, {}).values()))
        for name, found in modules.items()
    ]


def _is_whole(one: Dumped) -> bool:
    """Whether all values are there to be measured, and not only a sample of them."""
    return one.raw is not None and (one.stats is None or one.stats.count <= one.raw.elements)


def _key(one: Dumped) -> tuple[str, str, str, str]:
    return one.info.network, one.text, one.info.slot, one.info.kind


def _link(raw: Raw, dtype: str) -> links.Link:
    file = str(raw.file.resolve())
    wide = raw.dtype if raw.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2") else ""
    return links.Link(file, raw.offset, dtype or raw.dtype, raw.held, raw.shape, raw.fortran, wide)
