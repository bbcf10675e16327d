"""The parameter ledger: who owns a parameter, whether gradients reach it, whether it moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensight.records import Network, Observation, Parameter, Part, TensorInfo


@dataclass(slots=True)
class Entry:
    """A parameter and what was seen of it."""

    network: str
    parameter: Parameter
    gradient: int = -1  # id of the gradient's tensor; -1 when no gradient was ever seen
    weight: int = -1
    zero_gradients: int = 0  # observed gradients that were zero everywhere, before the first other one
    first_gradient: int = -1  # step of the first gradient that was not zero
    first_move: int = -1
    held: bool = False  # by some optimizer
    since: int = 0  # the step that saw it first: layers may be added while a training goes on

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def alive(self) -> bool:
        """Whether a gradient that is not zero was ever seen."""
        return self.first_gradient >= 0

    @property
    def layer(self) -> bool:
        """A weight of at least two dimensions that is no embedding: what makes a layer."""
        return self.parameter.role == "weight" and len(self.parameter.shape) >= 2 and not self.parameter.buffer

    @property
    def matrix(self) -> bool:
        """A layer's weight by name too: not a table, a token or a scale that happens to have two dimensions."""
        return self.layer and ("weight" in self.name.rpartition(".")[2] or "kernel" in self.name.rpartition(".")[2])

    @property
    def fan_in(self) -> int:
        """How many inputs one output of this weight has."""
        total = 1
        for length in self.parameter.shape[1:]:
            total *= length
        return total


class Ledger:
    """All parameters of all networks."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._gradients: dict[int, Entry] = {}
        self._weights: dict[int, Entry] = {}
        self._open: set[int] = set()  # tensors whose next observation may tell something new
        self._unlinked: dict[tuple[str, str, str], int] = {}
        self.held: dict[str, set[str]] = {}  # optimizer → 'network:parameter'

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, network: str) -> list[Entry]:
        return [entry for entry in self._entries.values() if entry.network == network]

    def get(self, network: str, name: str) -> Entry | None:
        return self._entries.get((network, name))

    def weight_of(self, tensor: int) -> Entry | None:
        """The parameter whose values a tensor holds."""
        return self._weights.get(tensor)

    def add_network(self, network: Network, step: int = 0) -> None:
        names = set()
        for parameter in network.parameters:
            if parameter.buffer:
                continue
            names.add(parameter.name)
            key = (network.name, parameter.name)
            old = self._entries.get(key)
            if old is None or old.parameter.shape != parameter.shape:
                self._entries[key] = Entry(network.name, parameter, since=step)
                for kind in ("gradient", "weight"):
                    tensor = self._unlinked.pop((kind, *key), None)
                    if tensor is not None:
                        self._link(kind, key, tensor)
            else:
                old.parameter = parameter
        for key in [key for key in self._entries if key[0] == network.name and key[1] not in names]:
            del self._entries[key]
        self._hold()

    def add_part(self, part: Part) -> None:
        if part.kind == "optimizer":
            self.held[part.name] = set(part.parameters)
            self._hold()

    def add_tensor(self, info: TensorInfo) -> None:
        if info.kind not in ("gradient", "weight", "frozen"):
            return
        kind = "gradient" if info.kind == "gradient" else "weight"
        key = (info.network, info.name)
        if key in self._entries:
            self._link(kind, key, info.id)
        else:
            self._unlinked[(kind, *key)] = info.id

    def _hold(self) -> None:
        """Without any optimizer object the user updates weights by hand: then all trainable ones count as held."""
        names = set().union(*self.held.values()) if self.held else set()
        for entry in self._entries.values():
            known = bool(entry.parameter.optimizer) or f"{entry.network}:{entry.parameter.name}" in names
            entry.held = known or (not self.held and entry.parameter.trainable and entry.parameter.registered)

    def _link(self, kind: str, key: tuple[str, str], tensor: int) -> None:
        entry = self._entries[key]
        if kind == "gradient":
            entry.gradient = tensor
            self._gradients[tensor] = entry
        else:
            entry.weight = tensor
            self._weights[tensor] = entry
        self._open.add(tensor)

    def follow(self, step: int, observations: Iterable[Observation]) -> None:
        """What a step adds; parameters that are known to live and move cost one lookup each, or none."""
        still_open = self._open
        if not still_open:
            return
        for one in observations:
            if one.tensor not in still_open:
                continue
            stats = one.stats
            entry = self._gradients.get(one.tensor)
            if entry is not None:
                if stats.zero < stats.count:
                    entry.first_gradient = step
                    still_open.discard(one.tensor)
                else:
                    entry.zero_gradients += 1
                continue
            entry = self._weights[one.tensor]
            change = stats.change
            if change is None:
                continue
            if change.equal < change.count or change.abs_max:
                entry.first_move = step
                still_open.discard(one.tensor)
