"""Statistics of many tensors over many steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.errors import MissingExtra
from tensight.records import Kind, Stats, TensorInfo
from tensight.runs.tensor import numbers
from tensight.runs.words import matches, number, paragraph, table
from tensight.store import Reader

if TYPE_CHECKING:
    import pandas
    import pyarrow

_SHOWN = 50
StepsWanted = int | range | Iterable[int] | None


class StatsRow(msgspec.Struct, frozen=True):
    """Statistics of one tensor at one moment."""

    step: int
    rank: int
    network: str
    node: str
    slot: str
    kind: Kind
    micro: int
    stats: Stats


class StatsTable(Sequence[StatsRow]):
    """Rows in order of step, rank and execution."""

    def __init__(self, rows: Iterable[StatsRow]) -> None:
        self._rows = list(rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> list[Any]:
        """One statistic ('max') or word ('step') of every row."""
        return [row[name] for row in self.dicts()]

    def dicts(self) -> list[dict[str, Any]]:
        """Every row as a flat dictionary."""
        return [
            {
                "step": row.step,
                "rank": row.rank,
                "network": row.network,
                "node": row.node,
                "slot": row.slot,
                "kind": row.kind,
                "micro": row.micro,
                **numbers(row.stats),
            }
            for row in self._rows
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with one row for each observation."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "notebook", "a table of statistics as a DataFrame") from error
        names = [*StatsRow.__struct_fields__[:-1], *numbers(Stats(0))]
        return pandas.DataFrame(self.dicts(), columns=None if self._rows else names)

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow Table with one row for each observation."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtra("pyarrow", "arrow", "a table of statistics as an Arrow table") from error
        return pyarrow.Table.from_pylist(self.dicts())

    def __repr__(self) -> str:
        return f"<StatsTable: {len(self)} rows>"

    def _repr_html_(self) -> str:
        names = ("step", "rank", "node", "slot", "kind", "count", "nan", "min", "max", "mean", "abs_mean", "std")
        rows = []
        for row in StatsTable(self._rows[:_SHOWN]).dicts():
            cells = (row[name] for name in names)
            rows.append([number(cell) if isinstance(cell, float) or cell is None else cell for cell in cells])
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(names, rows) + (paragraph(more) if more else "")


class Selection:
    """Some tensors over some steps; `stats()` reads them."""

    def __init__(self, readers: Sequence[Reader], glob: str, kinds: Collection[str], step: StepsWanted) -> None:
        self._readers = readers
        self._glob = glob
        self._kinds = kinds
        self._step = step

    @property
    def tensors(self) -> list[TensorInfo]:
        """The tensors that are meant, as the first rank knows them."""
        return list(self._of(self._readers[0]).values())

    def stats(self) -> StatsTable:
        """What was recorded of them."""
        rows = [(row.step, row.rank, order, row) for reader in self._readers for order, row in self._rows(reader)]
        return StatsTable(row for *_, row in sorted(rows, key=lambda found: found[:3]))

    def _of(self, reader: Reader) -> dict[int, TensorInfo]:
        return {
            info.id: info
            for info in reader.tensors.values()
            if (not self._kinds or info.kind in self._kinds) and matches(self._glob, info.node, info.name)
        }

    def _rows(self, reader: Reader) -> Iterator[tuple[int, StatsRow]]:
        infos = self._of(reader)
        wanted = frozenset(infos)
        for step in self._numbers(reader):
            for seen in reader.steps.some(step, wanted).observations:
                info = infos[seen.tensor]
                row = StatsRow(step, reader.rank, info.network, info.node, info.slot, info.kind, seen.micro, seen.stats)
                yield seen.order, row

    def _numbers(self, reader: Reader) -> list[int]:
        if self._step is None or isinstance(self._step, range):
            return reader.steps.within(self._step)
        wanted = {self._step} if isinstance(self._step, int) else set(self._step)
        return sorted(number for number in wanted if reader.steps.has(number))


class Nodes:
    """The nodes a glob names; its methods choose which of their tensors are meant."""

    def __init__(self, readers: Sequence[Reader], glob: str) -> None:
        self._readers = readers
        self._glob = glob

    @property
    def names(self) -> list[str]:
        """Paths of the modules that match, in order of the models."""
        networks = self._readers[0].networks.values()
        paths = [module.path for network in networks for module in network.modules]
        seen = [info.node for info in self._readers[0].tensors.values()]
        return [path for path in dict.fromkeys((*paths, *seen)) if matches(self._glob, path)]

    def outputs(self, step: StepsWanted = None) -> Selection:
        """What the modules returned."""
        return self._select(("output", "activation"), step)

    def output_gradients(self, step: StepsWanted = None) -> Selection:
        """Gradients of what the modules returned."""
        return self._select(("output_gradient",), step)

    def inputs(self, step: StepsWanted = None) -> Selection:
        """What the modules were given (level module)."""
        return self._select(("module_input", "input"), step)

    def weights(self, step: StepsWanted = None) -> Selection:
        """Parameters, trained or not."""
        return self._select(("weight", "frozen"), step)

    def gradients(self, step: StepsWanted = None) -> Selection:
        """Gradients of parameters."""
        return self._select(("gradient",), step)

    def all(self, step: StepsWanted = None) -> Selection:
        """Every tensor of the nodes."""
        return self._select((), step)

    def __repr__(self) -> str:
        return f"<Nodes {self._glob!r}: {len(self.names)}>"

    def _select(self, kinds: tuple[str, ...], step: StepsWanted) -> Selection:
        return Selection(self._readers, self._glob, kinds, step)
