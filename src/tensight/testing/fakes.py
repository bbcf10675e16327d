"""Stand-ins for parts of Tensight, for tests of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tensight.frameworks.adapter import Array
from tensight.frameworks.tap import Tap
from tensight.records import Depth, Graph, Kind, Level, Needs, Network, Part, Phase, Source, Stats, TensorInfo
from tensight.records.event import Value


@dataclass(frozen=True)
class Seen:
    """One call of a sink, in order."""

    what: str  # the method's name
    tensor: int = -1
    stats: Stats | None = None
    phase: Phase = "forward"
    name: str = ""  # of the network, optimizer, event
    values: Mapping[str, Value] = field(default_factory=dict)
    training: bool = True
    number: float = 0.0
    step: int = 0


class RecordingSink:
    """A sink that keeps all it is told, in order, and ends a step with every update.

    Every method named in `broken` raises, which an adapter must survive. The method named by `stop_in` raises
    SystemExit the second time it is called, which must end the program. `depths` sets the depth of each step.
    """

    def __init__(self, depth: Depth = Depth.ALL, level: Level = "watch", needs: Needs | None = None) -> None:
        self.depth = depth
        self.level: Level = level
        self.step = 0
        self.keep_tensors = False
        self.tap: Tap | None = None
        self.structure = False
        self.looking = self.looking_since = 0.0
        self.graphs: list[Graph] = []
        self.needs_version = 0
        self.seen: list[Seen] = []
        self.infos: dict[int, TensorInfo] = {}
        self.networks: dict[str, Network] = {}
        self.parts: dict[tuple[str, str], Part] = {}
        self.kept: dict[int, Array] = {}
        self.scalars: dict[str, float] = {}
        self.gaps: list[tuple[str, str, str]] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.undeclared: list[int] = []  # observed before they were declared
        self.broken: set[str] = set()
        self.stop_in = ""
        self.depths: Mapping[int, Depth] = {}
        self.on_depth: Callable[[], None] = lambda: None
        self._needs = needs or Needs(change=True)
        self._next = 0

    # what an adapter calls

    def new_id(self) -> int:
        self._next += 1
        return self._next - 1

    def network(self, network: Network) -> None:
        self._trip("network")
        self.networks[network.name] = network
        self._add(Seen("network", name=network.name))

    def part(self, part: Part) -> None:
        self._trip("part")
        self.parts[part.kind, part.name] = part
        self._add(Seen("part", name=part.name))

    def tensor(self, info: TensorInfo) -> None:
        self._trip("tensor")
        self.infos[info.id] = info
        self._add(Seen("tensor", tensor=info.id))

    def needs(self, info: TensorInfo) -> Needs:
        self._trip("needs")
        return self._needs if info.kind == "weight" else Needs()

    def observe(
        self, tensor: int, stats: Stats, phase: Phase = "forward", shape: tuple[int, ...] | None = None
    ) -> None:
        if tensor not in self.infos:
            self.undeclared.append(tensor)
        self._add(Seen("observe", tensor=tensor, stats=stats, phase=phase))

    def unobserved(self, tensor: int, error: str, phase: Phase = "forward") -> None:
        self._add(Seen("unobserved", tensor=tensor, phase=phase, name=error))

    def wants(self, tensor: int) -> bool:
        return True

    def keep(self, tensor: int, value: Array) -> None:
        self.kept[tensor] = value

    def hand_over(self, tensor: int, value: Callable[[], Array]) -> None:
        self.keep(tensor, value())

    def event(
        self, kind: str, part: str = "", values: Mapping[str, Value] | None = None, source: Source | None = None
    ) -> None:
        self._add(Seen("event", name=kind, values={"part": part, **(values or {})}))

    def scalar(self, name: str, value: float) -> None:
        self.scalars[name] = value

    def loss(self, value: float) -> None:
        self._add(Seen("loss", number=value))

    def graph(self, graph: Graph) -> None:
        self._trip("graph")
        self.graphs.append(graph)

    def forward(self, network: str, training: bool) -> None:
        self._add(Seen("forward", name=network, training=training))

    def forwarded(self, network: str) -> None:
        self._add(Seen("forwarded", name=network))

    def backward(self) -> None:
        self._add(Seen("backward"))

    def before_update(self, optimizer: str) -> None:
        self._add(Seen("before_update", name=optimizer))

    def updated(self, optimizer: str) -> None:
        self._add(Seen("updated", name=optimizer))
        self._next_step()

    def weights_changed(self) -> None:
        self._add(Seen("weights_changed"))
        self._next_step()

    def gap(self, what: str, reason: str, remedy: str = "") -> None:
        self.gaps.append((what, reason, remedy))

    def failed(self, where: str, error: BaseException) -> None:
        self._trip("failed")
        self.failures.append((where, error))

    def _trip(self, method: str) -> None:
        if method in self.broken:
            raise ValueError(f"Sink.{method} is broken, as the test wants it")

    def _next_step(self) -> None:
        self.step += 1
        depth = self.depths.get(self.step, self.depth)
        if depth != self.depth:
            self.depth = depth
            self.on_depth()

    def _add(self, seen: Seen) -> None:
        self._trip(seen.what)
        if seen.what == self.stop_in and any(one.what == seen.what for one in self.seen):
            raise SystemExit(0)
        object.__setattr__(seen, "step", self.step)
        self.seen.append(seen)

    # what a test asks

    @property
    def only_network(self) -> Network:
        (network,) = self.networks.values()
        return network

    def named(self, what: str) -> list[Seen]:
        """All calls of one method, in order."""
        return [one for one in self.seen if one.what == what]

    def observed(
        self, kind: Kind | None = None, name: str | None = None, step: int | None = None, phase: Phase | None = None
    ) -> list[tuple[TensorInfo, Seen]]:
        """Observations that fit, in order."""
        found = []
        for one in self.seen:
            if one.what != "observe":
                continue
            info = self.infos[one.tensor]
            if (
                (kind is None or info.kind == kind)
                and (name is None or info.name == name)
                and (step is None or one.step == step)
                and (phase is None or one.phase == phase)
            ):
                found.append((info, one))
        return found

    def events(self, kind: str) -> list[Seen]:
        return [one for one in self.seen if one.what == "event" and one.name == kind]


__all__ = ["RecordingSink", "Seen"]
