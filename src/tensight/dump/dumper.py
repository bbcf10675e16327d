"""Which tensors of which step go to the dump. A recorder shows it every tensor; it knows no framework."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tensight.dump import layout, naming
from tensight.dump.anf import from_record
from tensight.dump.naming import Label, Labels
from tensight.dump.settings import DumpSettings
from tensight.dump.statistic_csv import Rows, header
from tensight.dump.writing import Array, Asynchronous, File, Output, Synchronous
from tensight.frameworks.tap import Given, Ran
from tensight.records import Graph, Level, Network, Observation, Stats, StepRecord, TensorInfo

_MODULE_KINDS = frozenset(("output", "activation", "output_gradient", "module_input", "input_gradient"))
_OPERATOR_KINDS = frozenset(("operator", "operator_gradient"))
_BESIDE_OUTPUTS = frozenset(
    ("weight", "frozen", "buffer", "gradient", "output_gradient", "module_input", "input_gradient")
)
_WITHOUT_OPERATORS = ("mindspore",)  # operators of PyNative mode are not shown to us

_Place = tuple[str, str, str, int]  # module, operator, phase, number


class Dumper:
    """Implements `tensight.frameworks.tap.Tap`: chooses, names and hands over to be written."""

    def __init__(
        self,
        settings: DumpSettings,
        *,
        framework: Callable[[], tuple[str, str]],
        rank: Callable[[], int | None],
        networks: Mapping[str, Network],
        tensors: Mapping[int, TensorInfo],
    ) -> None:
        self.settings = settings
        inputs = settings.inputs or settings.overflow_only
        self.level: Level = "op" if settings.level == "operator" else "module" if inputs else "watch"
        self.keeps = settings.tensors or "md5" in settings.categories
        self.operators = settings.level == "operator" and (settings.inputs or settings.op_debug_mode > 0)
        self.output: Output = (
            Asynchronous(settings.queue_bytes, settings.wait_seconds) if settings.asynchronous else Synchronous()
        )
        self.overflows = 0  # operators that overflowed so far
        self._framework = framework
        self._rank = rank
        self._networks = networks
        self._tensors = tensors
        self._labels: dict[int, Labels] = {}
        self._rows = Rows(settings.categories)
        self._pid = os.getpid()
        self._iteration = -1
        self._active = False
        self._folder: Path | None = None  # of this rank
        self._graphs: dict[str, int] = {}  # number by network
        self._chosen: dict[int, bool] = {}
        self._frames: dict[int, tuple[int, str, str]] = {}
        self._noted: set[tuple[int, Label]] = set()
        self._order: dict[int, dict[str, None]] = {}  # names that ran in this step, by graph
        self._said: set[tuple[Path, str]] = set()
        self._begun: set[Path] = set()
        self._csv: dict[int, list[str]] = {}  # rows of this step, by graph
        self._operators: dict[_Place, tuple[str, str, bool]] = {}  # type, name, whether it is chosen
        self._given: dict[_Place, list[tuple[Sequence[int], str, str, str]]] = {}  # shape, dtype and the text around
        self._folders: dict[int, Path] = {}  # of this iteration, by graph
        self._notes: list[str] = []
        self._held: dict[tuple[str, str, int], list[tuple[TensorInfo, Stats, Array]]] = {}
        self._time = 0
        self.outputs_only = False
        self._outputs_only = False
        self._judged_tensors = -1  # how many were known when that was judged

    # what a recorder asks

    def wants_step(self, step: int) -> bool:
        if self._csv and os.getpid() == self._pid:
            self._flush()  # rows of a step that has not ended
        self._iteration = step + self.settings.initial_iteration
        self._active = (
            os.getpid() == self._pid
            and self._iteration in self.settings.iterations
            and self._is_asked(self._rank())
            and not self._full()
        )
        self._held.clear()
        self._folders.clear()
        self.outputs_only = self._active and self._takes_outputs_only()
        return self._active

    def wants(self, info: TensorInfo, stats: Stats) -> bool:
        if not self._active or not self._is_chosen(info):
            return False
        if self.settings.exception_only:
            return False
        if self.settings.overflow_only:
            # what a module was given is held until it is known what it made of it
            return info.kind not in _OPERATOR_KINDS and (bool(stats.bad) or info.kind == "module_input")
        return True

    def take(self, info: TensorInfo, stats: Stats, value: Array) -> None:
        if os.getpid() != self._pid:
            return
        if not self.settings.overflow_only:
            self._put(info, stats, value)
            return
        place = (info.network, info.node, info.call)
        if info.kind == "module_input":
            self._held.setdefault(place, []).append((info, stats, value))
        elif not self._full():
            self._overflowed(info, stats, value, self._held.pop(place, []))

    def ran(self, operator: Ran) -> None:
        if not self._active or os.getpid() != self._pid:
            return
        place = (operator.module, operator.op, operator.phase, operator.number)
        known = self._operators.get(place)
        if known is None:
            type, name = naming.operator_name(*place)
            known = self._operators[place] = (type, name, self._matches(type, name, operator.module))
        type, name, chosen = known
        if not chosen:
            return
        graph = self._graph(operator.made[0].info.network if operator.made else next(iter(self._networks), ""))
        if operator.error or (not self.settings.exception_only and self.settings.overflow_only):
            if operator.error or (any(one.stats.bad for one in operator.made) and not self._full()):
                self._judged(operator, graph, type, name)
        elif self.settings.inputs and not self.settings.exception_only:
            if self.settings.statistics and not self.keeps:
                self._given_rows(operator, place, graph, type, name)
                return
            for slot, given in enumerate(operator.given):
                self._put_given(operator, graph, Label(type, name, "input", slot), given)

    # at the end of a step

    def step_ended(self, record: StepRecord) -> None:
        """Statistics of the step, its order of execution, and what is new about tensors."""
        if not self._active or os.getpid() != self._pid:
            return
        if self.settings.statistics and not self.keeps:
            self._rows_of(record)
        self._flush()

    def close(self, graphs: Sequence[Graph] = ()) -> None:
        """Everything is written when this returns, unless the disk hangs; `graphs` are those of the run."""
        if os.getpid() != self._pid:
            return
        self._flush()
        if not self.output.close():
            return
        if self._begun:
            for graph in graphs:
                self._write_graph(graph)
        self._settle()

    def _settle(self) -> None:
        """Give the folder of a rank that was not known the name it should have."""
        rank = self._rank()
        if self._folder is None or rank is None or not self._folder.name.startswith("pending_"):
            return
        target = layout.rank_folder(self.settings.path, rank)
        if not self._is_asked(rank):
            shutil.rmtree(self._folder, ignore_errors=True)
        elif not target.exists():
            self._folder.rename(target)

    @property
    def wrote(self) -> bool:
        """Whether anything was dumped so far."""
        return bool(self._begun)

    def trouble(self) -> list[str]:
        """What was not dumped, in words."""
        said = self.output.trouble()
        unused = self.settings.kernels.unused if self.settings.dump_mode == 1 and self._begun else []
        if unused:
            said.append(f"kernels of the dump configuration that matched nothing: {', '.join(unused)}")
        return said

    # choosing

    def _is_asked(self, rank: int | None) -> bool:
        return rank is None or rank in self.settings.devices

    def _full(self) -> bool:
        most = self.settings.overflow_number
        return bool(most) and self.overflows >= most

    def _is_chosen(self, info: TensorInfo) -> bool:
        known = self._chosen.get(info.id)
        if known is None:
            known = self._chosen[info.id] = self._choose(info)
        return known

    def _choose(self, info: TensorInfo) -> bool:
        if self._is_compiled(info.network) and self._framework()[0] in _WITHOUT_OPERATORS:
            return False  # MindSpore dumps graphs itself
        if info.kind in _MODULE_KINDS and self.level == "op" and self._has_operators(info.network):
            return False
        label = self._label(info)
        held = self.settings.overflow_only and label.io == "input"
        if not held and not (self.settings.inputs if label.io == "input" else self.settings.outputs):
            return False
        return self._matches(label.type, label.name, info.node, info.name)

    def _has_operators(self, network: str) -> bool:
        return self._framework()[0] not in _WITHOUT_OPERATORS and not self._is_compiled(network)

    def _takes_outputs_only(self) -> bool:
        """Whether nothing but values of module outputs is chosen, of all tensors that were seen so far."""
        settings = self.settings
        if self.level != "watch" or settings.statistics or settings.overflow_only or settings.exception_only:
            return False
        if settings.dump_mode == 0 or settings.kernels.unused:
            return False  # parameters are chosen, or a name belongs to what has not been seen yet
        if len(self._tensors) != self._judged_tensors:
            self._judged_tensors = len(self._tensors)
            self._outputs_only = not any(
                self._is_chosen(info) for info in self._tensors.values() if info.kind in _BESIDE_OUTPUTS
            )
        return self._outputs_only

    def _is_compiled(self, network: str) -> bool:
        known = self._networks.get(network)
        return known is not None and known.compiled

    def _matches(self, type: str, name: str, *others: str) -> bool:
        return self.settings.dump_mode == 0 or self.settings.kernels.match(name, type, *others)

    # writing

    def _put(self, info: TensorInfo, stats: Stats, value: Array) -> None:
        label = self._label(info)
        graph = self._graph(info.network)
        self._note(graph, label, info)
        self._write(graph, label, info.dtype, stats, value)

    def _put_given(self, operator: Ran, graph: int, label: Label, given: Given) -> None:
        """What an operator was given stands before what it made, though it is told afterwards."""
        if (graph, label) in self._noted:
            self._order.setdefault(graph, {}).setdefault(label.name)
        else:
            self._note(graph, label, self._describe(operator, graph, label, given))
        stats = given.statistics() if self.settings.statistics else None
        if self.keeps:
            self._write(graph, label, given.dtype, stats, given.numpy(), operator.began)
        elif stats is not None:
            self._row(graph, label, operator.began, given.dtype, given.shape, stats, None)

    def _given_rows(self, operator: Ran, place: _Place, graph: int, type: str, name: str) -> None:
        """Rows of what an operator was given; what is the same in every step is made once."""
        frames = self._given.setdefault(place, [])
        rows = self._csv.setdefault(graph, [])
        began = operator.began
        for slot, given in enumerate(operator.given):
            stats = given.statistics()
            if slot < len(frames) and frames[slot][0] == given.shape and frames[slot][1] == given.dtype:
                _, _, begin, end = frames[slot]
            else:
                label = Label(type, name, "input", slot)
                if (graph, label) not in self._noted:
                    self._note(graph, label, self._describe(operator, graph, label, given))
                begin, end = self._rows.frame(label, given.dtype, tuple(given.shape), stats.count)
                frames[slot : slot + 1] = [(given.shape, given.dtype, begin, end)]
            rows.append(f"{begin}{began}{end}{self._rows.numbers(stats)}\n")
        if operator.given:
            self._order.setdefault(graph, {}).setdefault(name)

    def _describe(self, operator: Ran, graph: int, label: Label, given: Given) -> TensorInfo:
        return TensorInfo(
            id=-1,
            kind="module_input",
            node=operator.module,
            slot=f"input.{label.slot}",
            network=next((name for name, number in self._graphs.items() if number == graph), ""),
            call=operator.number,
            shape=tuple(given.shape),
            dtype=given.dtype,
            op=operator.op,
            phase=operator.phase,  # type: ignore[arg-type]
            source=operator.source(),
        )

    def _write(self, graph: int, label: Label, dtype: str, stats: Stats | None, value: Array, now: int = 0) -> None:
        now = now or self._now()
        if self.settings.statistics and stats is not None:
            self._row(graph, label, now, dtype, tuple(value.shape), stats, value)
        if not self.settings.tensors:
            return
        if self.settings.sample is not None:
            value = value.reshape(-1)[: self.settings.sample]
        folder = self._iteration_folder(graph)
        name = naming.file_name(label, now, dtype, self.settings.file_format)
        if len(name.encode()) > naming.LONGEST:
            short = naming.short_name(name)
            self.output.append(folder / layout.MAPPING, f"{short},{name}\n")
            name = short
        self.output.put(File(folder / name, value))

    def _row(
        self, graph: int, label: Label, now: int, dtype: str, shape: tuple[int, ...], stats: Stats, value: Array | None
    ) -> None:
        self._csv.setdefault(graph, []).append(self._rows.row(label, now, dtype, shape, stats, value))

    def _rows_of(self, record: StepRecord) -> None:
        numbers = self._rows.numbers
        first = int(record.time * 1e6)
        lines: dict[int, list[str]] = {}
        for seen in record.observations:
            known = self._frames.get(seen.tensor)
            if known is None or seen.shape is not None:
                known = self._frame(seen)
            graph, begin, end = known
            if graph >= 0 and not seen.error:
                lines.setdefault(graph, []).append(f"{begin}{first + seen.order}{end}{numbers(seen.stats)}\n")
        for graph, rows in lines.items():
            self._order.setdefault(graph, {})
            self._csv.setdefault(graph, []).extend(rows)

    def _frame(self, seen: Observation) -> tuple[int, str, str]:
        """Graph of a tensor and the text around its time in a row; the graph is -1 when it is not chosen."""
        info = self._tensors[seen.tensor]
        if not self._is_chosen(info):
            made = (-1, "", "")
        else:
            label, graph = self._label(info), self._graph(info.network)
            self._note(graph, label, info)
            shape = info.shape if seen.shape is None else seen.shape
            made = (graph, *self._rows.frame(label, info.dtype, shape, seen.stats.count))
        if seen.shape is None:
            self._frames[seen.tensor] = made
        return made

    def _overflowed(
        self, info: TensorInfo, stats: Stats, value: Array, given: list[tuple[TensorInfo, Stats, Array]]
    ) -> None:
        """A module's tensor that is not finite, with what the module was given."""
        self.overflows += 1
        for one in given:
            self._put(*one)
        self._put(info, stats, value)
        label = self._label(info)
        stack = [info.source] if info.source else []
        facts = {
            "op_name": label.name,
            "op_type": label.type,
            "module": info.node,
            "inputs_finite": not any(stats.bad for _, stats, _ in given),
            "outputs": [_facts(stats)],
            "inputs": [_facts(stats) for _, stats, _ in given],
            "stack": [msgspec.to_builtins(line) for line in stack],
        }
        self._tell(self._graph(info.network), facts)

    def _judged(self, operator: Ran, graph: int, type: str, name: str) -> None:
        """An operator that overflowed or failed, with all it was given and made, and the lines it was called from."""
        self.overflows += 1
        for slot, given in enumerate(operator.given):
            self._put_given(operator, graph, Label(type, name, "input", slot), given)
        for made in operator.made:
            self._put(made.info, made.stats, made.numpy())
        inputs = [given.statistics() for given in operator.given if "float" in given.dtype]
        facts = {
            "op_name": name,
            "op_type": type,
            "module": operator.module,
            "inputs_finite": not any(stats.bad for stats in inputs),
            "outputs": [_facts(made.stats) for made in operator.made],
            "inputs": [_facts(stats) for stats in inputs],
            "stack": [msgspec.to_builtins(line) for line in operator.stack()],
            **({"error": operator.error[:2000]} if operator.error else {}),
        }
        self._tell(graph, facts)
        if operator.error:
            self._flush()

    def _tell(self, graph: int, facts: Mapping[str, object]) -> None:
        name = f"Opdebug.Node_OpDebug.0.0.{self._now()}.output.0.json"
        self.output.append(self._iteration_folder(graph) / name, json.dumps(facts, indent=1) + "\n")

    def _note(self, graph: int, label: Label, info: TensorInfo) -> None:
        """What a name stands for, said once; and that it ran."""
        self._order.setdefault(graph, {}).setdefault(label.name)
        if (graph, label) not in self._noted:
            self._noted.add((graph, label))
            fields = msgspec.to_builtins(info)
            del fields["id"]
            self._notes.append(json.dumps({"graph": graph, **label._asdict(), "info": fields}) + "\n")

    def _flush(self) -> None:
        if not self._notes and not self._csv and not self._order:
            return
        folder = self._rank_folder()
        for graph, lines in self._csv.items():
            path = self._iteration_folder(graph) / layout.STATISTICS
            first = "" if path in self._begun else header(self.settings.categories)
            self._begun.add(path)
            self.output.append(path, first + "".join(lines))
        self._csv = {}
        if self._notes:
            self.output.append(folder / layout.METADATA / layout.TENSORS, "".join(self._notes))
            self._notes = []
        for graph, names in self._order.items():
            path = layout.order_file(folder, graph)
            new = [name for name in names if (path, name) not in self._said]
            self._said.update((path, name) for name in new)
            if new:
                first = "" if path in self._begun else "NodeExecutionOrder-FullNameWithScope\n"
                self._begun.add(path)
                self.output.append(path, first + "\n".join(new) + "\n")
            self.output.append(layout.history_file(folder, graph), f"{self._iteration}\n")
        self._order = {}

    def _write_graph(self, graph: Graph) -> None:
        networks = {scope.network for scope in graph.scopes if scope.network}
        number = min((self._graph(name) for name in networks), default=0)
        self._write_bytes(layout.graph_file(self._rank_folder(), number), from_record(graph).encode())

    # places and times

    def _graph(self, network: str) -> int:
        """Each network is a graph; what runs outside of all belongs to the first."""
        return self._graphs.setdefault(network, len(self._graphs)) if network else 0

    def _label(self, info: TensorInfo) -> Label:
        return self._labels.setdefault(self._graph(info.network), Labels()).of(info)

    def _rank_folder(self) -> Path:
        if self._folder is None:
            rank = self._rank()
            # a process that was started by the script may learn only later which rank it is
            pending = self.settings.path / f"pending_{self._pid}"
            self._folder = pending if rank is None else layout.rank_folder(self.settings.path, rank)
            framework, version = self._framework()
            metadata = self._folder / layout.METADATA
            facts = {"device_target": "CPU", "ms_version": version, "framework": framework, "tensight": 1}
            self._write_bytes(metadata / "config.json", json.dumps(facts).encode())
            self._write_bytes(metadata / "data_dump.json", json.dumps(self.settings.given, indent=1).encode())
        return self._folder

    def _iteration_folder(self, graph: int) -> Path:
        known = self._folders.get(graph)
        if known is None:
            known = layout.iteration_folder(self._rank_folder(), self.settings.net_name, graph, self._iteration)
            self._folders[graph] = known
        return known

    def _write_bytes(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(data)

    def _now(self) -> int:
        """Microseconds since the epoch, never twice the same: files are ordered by it."""
        self._time = max(self._time + 1, time.time_ns() // 1000)
        return self._time


def _facts(stats: Stats) -> dict[str, object]:
    return {
        "count": stats.count,
        "nan": stats.nan,
        "pos_inf": stats.pos_inf,
        "neg_inf": stats.neg_inf,
        "min": stats.min,
        "max": stats.max,
    }
