"""A recorded run, with all its ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensight.errors import DamagedError, FormatError, NameNotFound
from tensight.records import Coverage, Ended, Network, Part, Replay, RunEnd, RunInfo, TensorInfo, Watchpoint
from tensight.records.audit import AuditEntry
from tensight.runs import foreign, report
from tensight.runs.affected import Affected, affected, export_graphs
from tensight.runs.audit import audit
from tensight.runs.findings import Findings, calm_between, merge
from tensight.runs.history import Leg, legs
from tensight.runs.hits import Hits
from tensight.runs.muting import mute, muted_beside
from tensight.runs.overflows import LIMIT, Overflows, overflows
from tensight.runs.query import Nodes
from tensight.runs.ranks import disagreement
from tensight.runs.ranks_causes import fed_alike, refined
from tensight.runs.ranks_statistics import statistics_apart
from tensight.runs.ranks_waiting import waiting_apart
from tensight.runs.recheck import recheck, watchpoints_of
from tensight.runs.selecting import SelectedNodes, select
from tensight.runs.shards import Whole, whole
from tensight.runs.spreading import recheck_by
from tensight.runs.tensor import RunTensor, find
from tensight.runs.words import paragraph, table
from tensight.store import News, Reader, Steps, ranks, remote

if TYPE_CHECKING:
    from tensight.runs.sql import Answer
    from tensight.watchpoints.condition import Condition
    from tensight.workers import Workers

_ORDER: tuple[Ended, ...] = ("running", "failed", "killed", "stopped", "finished")


def open_run(path: str | Path) -> Run:
    """Open a recorded run by its folder, or by an address such as 's3://bucket/runs/a'; it may still be written.

    A NameNotFound or FormatError says in one sentence why it cannot be opened.
    """
    return Run(remote.local(path))


class Run:
    """A run: what was found, hit and seen, over all its ranks.

    What belongs to one process (info, steps, networks, tensors, …) is that of the lowest rank; `rank(2)` gives
    another's. Findings, hits, replays and losses are those of all.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = _run_folder(Path(path))
        self.readers: dict[int, Reader] = {rank: Reader(self.path, rank) for rank in ranks(self.path)}
        self._hits: tuple[tuple[int, ...], Hits] | None = None

    def refresh(self) -> bool:
        """Take in what was written since, new ranks too; True when there was something new."""
        fresh = False
        for rank in ranks(self.path):
            if rank in self.readers:
                fresh |= self.readers[rank].refresh()
            else:
                self.readers[rank] = Reader(self.path, rank)
                fresh = True
        if fresh:
            self.readers = dict(sorted(self.readers.items()))
            self._hits = None
        return fresh

    def since(self, sequences: Mapping[int, int]) -> dict[int, News]:
        """For each rank what is new since its sequence number; ranks that are not named start at 0."""
        return {rank: reader.since(sequences.get(rank, 0)) for rank, reader in self.readers.items()}

    def rank(self, rank: int) -> Reader:
        """One rank's own recording."""
        if rank not in self.readers:
            raise NameNotFound(f"{self.path} has no rank {rank}: it has {', '.join(map(str, self.readers))}")
        return self.readers[rank]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def info(self) -> RunInfo:
        return self._first.info

    @property
    def end(self) -> RunEnd | None:
        return self._first.end

    @property
    def ended(self) -> Ended:
        """How it ended: 'running' while a process of it runs, 'killed' when one is gone without a word."""
        states: set[Ended] = set()
        for reader in self.readers.values():
            states.add(reader.end.ended if reader.end else "running" if reader.alive else "killed")
        return next(state for state in _ORDER if state in states)

    @property
    def networks(self) -> Sequence[Network]:
        return list(self._first.networks.values())

    @property
    def parts(self) -> Sequence[Part]:
        return self._first.parts

    @property
    def tensors(self) -> Mapping[int, TensorInfo]:
        return self._first.tensors

    @property
    def watchpoints(self) -> Sequence[Watchpoint]:
        return list(self._first.watchpoints.values())

    @property
    def steps(self) -> Steps:
        return self._first.steps

    @property
    def step_count(self) -> int:
        """How many steps were made, also those that are no longer kept."""
        counts = [reader.end.steps if reader.end else 0 for reader in self.readers.values()]
        counts += [reader.steps.numbers[-1] + 1 for reader in self.readers.values() if len(reader.steps)]
        return max(counts)

    @property
    def coverage(self) -> Coverage | None:
        return self._first.coverage

    @property
    def crash(self) -> Mapping[str, Any] | None:
        """The exception that ended the script: of the first rank that has one."""
        return next((reader.crash for reader in self.readers.values() if reader.crash is not None), None)

    @property
    def replays(self) -> Sequence[Replay]:
        return [replay for reader in self.readers.values() for replay in reader.replays]

    @property
    def lost(self) -> Sequence[str]:
        """What could not be recorded or read, in words."""
        trouble = self._audited()[1]
        if len(self.readers) == 1:
            return [*self._first.lost, *trouble]
        return [f"rank {rank}: {what}" for rank, reader in self.readers.items() for what in reader.lost] + trouble

    @property
    def findings(self) -> Findings:
        """Why it went wrong, the most certain root cause first. Those muted on the page are marked so."""
        found = merge({rank: reader.findings for rank, reader in self.readers.items()}, calm_between(self.readers))
        if not any(finding.category == "distributed" for finding in found):
            found += (
                disagreement(self.readers)
                or waiting_apart(self.readers, self.path)
                or fed_alike(self.readers)
                or statistics_apart(self.readers)
            )
        found = refined(found, self.readers)
        return Findings(mute(found, muted_beside(self.path)))

    @property
    def hits(self) -> Hits:
        """Every hit, and every entry that could not be judged, in order of step, rank and execution."""
        version = tuple(reader.sequence for reader in self.readers.values())
        if self._hits is None or self._hits[0] != version:
            found = [
                hit
                for reader in self.readers.values()
                for step in reader.steps.with_hits()
                for hit in reader.steps.head(step).hits
            ]
            self._hits = (version, Hits(sorted(found, key=lambda hit: (hit.step, hit.rank, hit.order))))
        return self._hits[1]

    def tensor(
        self,
        node: str,
        slot: str = "output",
        step: int | None = None,
        *,
        kind: str | None = None,
        network: str | None = None,
        call: int | None = None,
        rank: int | None = None,
    ) -> RunTensor:
        """A tensor by node and slot: `run.tensor("encoder.0.attn", "output", step=153)`.

        'output' means 'output.0' too, and 'weight.grad' the gradient of 'weight'. Without a step the last one is meant
        for which its values were kept, or else in which it was looked at.
        """
        reader = self._first if rank is None else self.rank(rank)
        found = find(reader.tensors, node, slot, kind=kind, network=network, call=call)
        if not found:
            slots = sorted({info.slot for info in reader.tensors.values() if node in (info.node, info.name)})
            there = f"it has {', '.join(slots)}" if slots else "nothing was seen of that node"
            raise NameNotFound(f"{self.path} has no tensor {slot} of {node}: {there}")
        info = found[0]
        return RunTensor(reader, info, _last_step(reader, info) if step is None else step)

    def whole(self, node: str, slot: str = "weight", step: int = 0, **which: Any) -> Whole:
        """A tensor's statistics over all ranks: `run.whole("encoder.0", "weight", step=7).stats`.

        Parts that FSDP or tensor parallelism have cut are put together, replicas stand for each other. `kind`,
        `network` and `call` choose as for `tensor`.
        """
        return whole(self.readers, node, slot, step, **which)

    def nodes(self, glob: str = "*") -> Nodes:
        """Nodes by a glob on their path: `run.nodes("encoder.*").outputs(step=range(100, 153)).stats()`."""
        return Nodes(list(self.readers.values()), glob)

    def select(
        self,
        query: str,
        *,
        regex: bool = False,
        by: str = "name",
        case_sensitive: bool = True,
        ranks: Iterable[int] | int | None = None,
    ) -> SelectedNodes:
        """Nodes by name, regular expression or line of code: `run.select(r"fc\\d", regex=True)`, `by="source"`."""
        found = self.readers.values()
        return select(found, query, regex=regex, by=by, case_sensitive=case_sensitive, ranks=ranks)

    def overflows(self, *, limit: float = LIMIT, step: int | range | None = None) -> Overflows:
        """For each tensor the steps in which it held NaN, infinities, or values beyond the limit."""
        return overflows(self.readers.values(), limit=limit, step=step)

    def affected(self, query: str, *, up: bool = False, regex: bool = False, rank: int | None = None) -> Affected:
        """Operators that what a node makes flows into, or with `up` those it was made from."""
        return affected(self._first if rank is None else self.rank(rank), query, up=up, regex=regex)

    def export_graphs(self, folder: str | Path, *, form: str = "csv") -> list[Path]:
        """Write each graph with its stacks as a table, 'csv' or 'xlsx', to a folder."""
        return export_graphs(self.readers.values(), Path(folder), form)

    def check(
        self,
        conditions: Condition | Watchpoint | str | Iterable[Any],
        nodes: str | None = None,
        *,
        step: int | range | None = None,
        on_error: Callable[..., None] | None = None,
        workers: Workers | None = None,
    ) -> Hits:
        """Judge conditions on the recorded statistics, without running anything again.

        `run.check(TensorOverflow(), nodes="gradient:*")`; text such as "TL(max_gt=100) on gradient:*" works too.
        """
        return self.recheck(watchpoints_of(conditions, nodes), step=step, on_error=on_error, workers=workers)

    def recheck(
        self,
        watchpoints: Sequence[Watchpoint],
        *,
        step: int | range | None = None,
        on_error: Callable[..., None] | None = None,
        workers: Workers | None = None,
    ) -> Hits:
        """Judge watchpoints on the recorded statistics; `workers` (`tensight.workers.workers_on`) share the work."""
        if workers is not None and workers.count > 1:
            return Hits(recheck_by(workers, list(self.readers.values()), watchpoints, step))
        return Hits(recheck(list(self.readers.values()), watchpoints, step, on_error or _ignore))

    @property
    def audit(self) -> Sequence[AuditEntry]:
        """Everything that changed the training: who, when, at which step, what."""
        return self._audited()[0]

    def _audited(self) -> tuple[Sequence[AuditEntry], list[str]]:
        """The audit log, and what is wrong with it: that it cannot be read must not go unsaid."""
        try:
            return audit(self.path), []
        except DamagedError as error:
            return [], [str(error)]

    def query(self, sql: str) -> Answer:
        """Ask one SELECT of the tables `stats`, `steps` and `hits`: `run.query("select step, loss from steps")`."""
        from tensight.runs.sql import query

        return query(self, sql)

    def to_parquet(self, path: str | Path, table: str = "stats") -> int:
        """Write 'stats', 'steps' or 'hits' as a Parquet file; returns how many rows it has."""
        from tensight.runs.parquet import export

        return export(self, path, table)

    @property
    def history(self) -> list[Leg]:
        """The runs that this training consists of, when it was interrupted and resumed by `--resume`; else itself."""
        return legs(self)

    def report(self) -> dict[str, Any]:
        """The report, as `tensight explain --json` prints it."""
        return report.build(self)

    def __repr__(self) -> str:
        found = len(self.findings)
        steps = f"{self.step_count} step{'' if self.step_count == 1 else 's'}"
        return f"<Run {self.path}: {self.ended}, {steps}, {found} finding{'' if found == 1 else 's'}>"

    def _repr_html_(self) -> str:
        info = self.info
        facts = [
            ("run", self.path),
            ("command", " ".join(info.command)),
            ("framework", f"{info.framework} {info.framework_version}"),
            ("ended", self.ended),
            ("steps", self.step_count),
            ("ranks", len(self.readers)),
        ]
        return table(("", ""), facts) + self.findings._repr_html_() + paragraph(*self.lost)

    @property
    def _first(self) -> Reader:
        return next(iter(self.readers.values()))


def _ignore(*_: object) -> None:
    """Errors of a condition stand in its hits; nobody else asked for them."""


def _last_step(reader: Reader, info: TensorInfo) -> int:
    kept = [step for step, ids in reader.kept.items() if info.id in ids]
    if kept:
        return max(kept)
    wanted = frozenset((info.id,))
    for step in reversed(reader.steps.numbers):
        if reader.steps.some(step, wanted).observations:
            return step
    raise NameNotFound(f"{info.name} {info.slot} was not looked at in any step that is kept")


def _run_folder(path: Path) -> Path:
    if not path.exists():
        beside = Path("runs") / path
        meant = f"did you mean {beside}?" if beside.is_dir() else "`tensight view` lists the runs of a folder"
        raise NameNotFound(f"there is no run {path}: {meant}")
    if path.is_file() and path.suffix in (".ir", ".pb"):
        shown = foreign.run_of(path)
        if shown is not None:
            return shown
    asked = path
    if path.is_file() or path.name.startswith("rank-"):
        path = path.parent  # a file or a rank's part of a run means the run
        if path.name.startswith("rank-"):
            path = path.parent
    if ranks(path):
        return path
    shown = foreign.run_of(path)
    if shown is not None:
        return shown
    if asked.is_file():
        raise FormatError(f"{asked} is a file, not a run: name a folder that `tensight run` has made")
    inside = sorted(child.name for child in path.iterdir() if child.is_dir() and ranks(child))
    if inside:
        some = ", ".join(inside[:5]) + (", …" if len(inside) > 5 else "")
        raise FormatError(f"{path} is a folder of runs, not a run: open one of {some}")
    raise FormatError(f"{path} is not a run: it has no recording of any rank")
