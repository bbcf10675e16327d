"""A run as the server holds it: the readers of its ranks and what pages ask for again and again, kept up to date."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tensight import store
from tensight.errors import FormatError, NameNotFound
from tensight.files import replacing
from tensight.records import Finding, Hit, StepRecord, TensorInfo, Watchpoint
from tensight.records.run import Ended
from tensight.runs.muting import MUTED, muted_beside
from tensight.server import tree
from tensight.server.answers import NetworkRow, RunRow, ShownFinding, StepColumns, StepNews

MOST_HITS = 200_000
"""How many hits are held at once: the first ones, since causes come before consequences."""


class Epochs:
    """Which pass over its data a training is in, from 0: each loader counts its batches anew in each."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._last: dict[str, tuple[int, int, int]] = {}  # loader → step, place in the epoch, epoch

    def at(self, record: StepRecord) -> int | None:
        """The epoch of a step: of the last batch before its update."""
        for event in record.events:
            index = event.values.get("index")
            if event.kind == "batch" and isinstance(index, int):
                step, place, epoch = self._last.get(event.part, (record.step, index, 0))
                epoch += index <= place and step != record.step
                self._last[event.part] = (record.step, index, epoch)
                self._epoch = epoch
        return self._epoch


class Columns:
    """Steps of one rank as growing columns."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.sequence: list[int] = []  # the recording's own, for each row
        self.steps: list[StepRecord] = []  # without observations, events and hits
        self.hits: list[int] = []
        self.epochs: list[int | None] = []
        self._epochs = Epochs()

    def add(self, record: StepRecord, sequence: int) -> None:
        self.hits.append(sum(hit.error is None for hit in record.hits))
        self.epochs.append(self._epochs.at(record))
        self.steps.append(msgspec.structs.replace(record, events=(), hits=(), observations=()))
        self.sequence.append(sequence)

    def after(self, sequence: int) -> StepColumns | None:
        first = len(self.sequence)
        while first > 0 and self.sequence[first - 1] > sequence:
            first -= 1
        rows = self.steps[first:]
        if not rows:
            return None
        names = sorted({name for row in rows for name in row.scalars})
        return StepColumns(
            rank=self.rank,
            step=[row.step for row in rows],
            time=[row.time for row in rows],
            seconds=[row.seconds for row in rows],
            loss=[row.loss for row in rows],
            hits=self.hits[first:],
            depth=[row.depth for row in rows],
            epoch=self.epochs[first:],
            scalars={name: [row.scalars.get(name) for row in rows] for name in names},
        )


class Recording:
    """One run directory. Used from several threads: every public method takes `lock`."""

    def __init__(self, id: str, folder: Path) -> None:
        self.id = id
        self.folder = folder
        self.lock = threading.RLock()
        self.readers: dict[int, store.Reader] = {}
        self.hits: list[Hit] = []
        self.hits_left_out = 0
        self.sequence = 0  # counts everything that was taken in
        self.structure = 0  # sequence of the last change of modules and tensors
        self.about = 0  # sequence of the last change of anything but steps
        self.drafts: dict[int, Watchpoint] | None = None  # watchpoints tried on a finished run
        self.places: tuple[tuple[int, int], dict[tree.Name, tree.Place]] | None = None  # the tree, kept by `tree.rows`
        self._columns: dict[int, Columns] = {}
        self._taken: dict[int, int] = {}
        self._muted = frozenset(muted_beside(folder))

    def refresh(self) -> bool:
        """Take in what was written since; True when there was something new."""
        with self.lock:
            before = self.sequence
            for rank in store.ranks(self.folder):
                if rank not in self.readers:
                    self.readers[rank] = store.Reader(self.folder, rank)
                    self._columns[rank] = Columns(rank)
                    self._taken[rank] = 0
                else:
                    self.readers[rank].refresh()
                self._take(rank)
            return self.sequence != before

    def reader(self, rank: int | None = None) -> store.Reader:
        """The reader of a rank, by default the lowest; a recording that is not there yet raises."""
        with self.lock:
            if not self.readers:
                self.refresh()
            if not self.readers:
                raise FormatError(f"{self.folder} holds no recording yet.")
            if rank is None:
                return self.readers[min(self.readers)]
            if rank not in self.readers:
                raise NameNotFound(f"There is no rank {rank}; this run has {sorted(self.readers)}.")
            return self.readers[rank]

    @property
    def ended(self) -> Ended:
        reader = self.reader()
        if reader.end is not None:
            return reader.end.ended
        return "running" if reader.alive else "killed"

    @property
    def watchpoints(self) -> dict[int, Watchpoint]:
        """The watchpoints of now: the training's own, or those tried on a finished run."""
        with self.lock:
            return dict(self.reader().watchpoints) if self.drafts is None else dict(self.drafts)

    @property
    def findings(self) -> list[ShownFinding]:
        with self.lock:
            found: dict[tuple[str, int], Finding] = {}
            for reader in self.readers.values():
                for finding in reader.findings:
                    found.setdefault((finding.key, finding.since_step), finding)
            shown = [
                ShownFinding(one.key, msgspec.structs.replace(one, muted=one.muted or one.key in self._muted))
                for one in found.values()
            ]
            return sorted(shown, key=lambda one: one.finding.muted)

    def row(self) -> RunRow:
        """The run in the list; a run that cannot be read says why."""
        with self.lock:
            try:
                self.refresh()
                reader = self.reader()
                columns = self._columns[reader.rank]
                last = columns.steps[-1] if columns.steps else None
                made = reader.end.steps if reader.end is not None else 0  # the last may not have been looked at
                return RunRow(
                    id=self.id,
                    path=str(self.folder),
                    started=reader.info.started,
                    framework=f"{reader.info.framework} {reader.info.framework_version}".strip(),
                    command=reader.info.command,
                    ranks=max(len(self.readers), reader.info.ranks),
                    steps=max(made, last.step + 1 if last is not None else 0),
                    loss=last.loss if last is not None else None,
                    ended=self.ended,
                    findings=sum(not one.finding.muted for one in self.findings),
                    hits=sum(sum(columns.hits) for columns in self._columns.values()),
                )
            except Exception as error:  # one broken run must not hide the others
                return RunRow(id=self.id, path=str(self.folder), error=str(error) or type(error).__name__)

    def networks(self) -> tuple[NetworkRow, ...]:
        with self.lock:
            return tuple(
                NetworkRow(
                    network.name,
                    network.type,
                    len(network.modules),
                    sum(one.size for one in network.parameters if not one.buffer and not one.tied_to),
                    sum(one.size for one in network.parameters if one.trainable and not one.buffer and not one.tied_to),
                )
                for network in self.reader().networks.values()
            )

    def news(self, sequence: int) -> StepNews:
        """Steps that were taken in after a sequence number."""
        with self.lock:
            columns = (self._columns[rank].after(sequence) for rank in sorted(self._columns))
            return StepNews(self.sequence, tuple(one for one in columns if one is not None))

    def steps(self, rank: int) -> list[int]:
        """Numbers of all steps of a rank that were ever seen."""
        with self.lock:
            return [record.step for record in self._columns[rank].steps]

    def hits_of(self, step: int) -> list[Hit]:
        """All hits of one step, also of one whose hits are not held."""
        with self.lock:
            hits: list[Hit] = []
            for rank in sorted(self.readers):
                with contextlib.suppress(NameNotFound):
                    hits.extend(self.readers[rank].steps.head(step).hits)
            return hits

    def mute(self, key: str, muted: bool) -> None:
        """Keep beside the run that a finding should interrupt nobody."""
        with self.lock:
            self._muted = self._muted | {key} if muted else self._muted - {key}
            _write(self.folder / MUTED, {"findings": sorted(self._muted)})
            self.about = self.sequence = self.sequence + 1

    def draft(self, watchpoints: Mapping[int, Watchpoint]) -> None:
        """Try other watchpoints on a finished run; nothing of it is written."""
        with self.lock:
            self.drafts = dict(watchpoints)
            self.about = self.sequence = self.sequence + 1

    def tensors(self, rank: int | None = None) -> list[TensorInfo]:
        with self.lock:
            infos = self.reader(rank).tensors
            return list(infos.values()) if isinstance(infos, Mapping) else list(infos)

    def _take(self, rank: int) -> None:
        reader = self.readers[rank]
        news = reader.since(self._taken[rank])
        self._taken[rank] = news.sequence
        if not news.steps and not news.changed:
            return
        self.sequence += 1
        if {"networks", "tensors"} & set(news.changed):
            self.structure = self.sequence
        if news.changed:
            self.about = self.sequence
        columns = self._columns[rank]
        known = columns.steps[-1].step if columns.steps else -1
        for step in news.steps:
            if step <= known:
                continue  # written again when it was thinned
            record = reader.steps.head(step)
            columns.add(record, self.sequence)
            room = max(0, MOST_HITS - len(self.hits))
            self.hits.extend(record.hits[:room])
            self.hits_left_out += len(record.hits[room:])


def _write(path: Path, content: object) -> None:
    """Replace a small file as a whole, so that nobody reads half of it."""
    with replacing(path) as new:
        new.write_text(json.dumps(content, indent=1) + "\n")
