"""A sink that remembers what it was told."""

from __future__ import annotations

from typing import Any

from tensight.records import Depth, Needs, Stats, TensorInfo


class Seen:
    """One observation with the tensor it is of."""

    def __init__(self, info: TensorInfo, stats: Stats, phase: str, step: int, micro: int) -> None:
        self.info, self.stats, self.phase, self.step, self.micro = info, stats, phase, step, micro


class RecordingSink:
    """Counts a step for every update, as long as there is one optimizer."""

    def __init__(self, depth: Depth = Depth.ALL, level: str = "watch", needs: Needs | None = None) -> None:
        self.depth, self.level, self.keep_tensors = depth, level, False
        self.looking = self.looking_since = 0.0
        self.tap = None
        self.step = 0
        self.micro = 0
        self.needs_version = 0
        self.asked = Needs(change=True) if needs is None else needs
        self.networks: dict[str, Any] = {}
        self.network_log: list[Any] = []
        self.parts: dict[tuple[str, str], Any] = {}
        self.tensors: dict[int, TensorInfo] = {}
        self.seen: list[Seen] = []
        self.unseen: list[tuple[TensorInfo, str]] = []
        self.events: list[tuple[int, str, str, dict, Any]] = []
        self.scalars: list[tuple[int, str, float]] = []
        self.losses: list[float] = []
        self.kept: dict[int, Any] = {}
        self.gaps: list[tuple[str, str, str]] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.calls: list[str] = []

    def new_id(self) -> int:
        return len(self.tensors)

    def network(self, network: Any) -> None:
        self.networks[network.name] = network
        self.network_log.append(network)

    def part(self, part: Any) -> None:
        self.parts[part.kind, part.name] = part

    def tensor(self, info: TensorInfo) -> None:
        assert info.id not in self.tensors
        self.tensors[info.id] = info

    def needs(self, info: TensorInfo) -> Needs:
        return self.asked

    def observe(self, tensor: int, stats: Stats, phase: str = "forward", shape: Any = None) -> None:
        self.seen.append(Seen(self.tensors[tensor], stats, phase, self.step, self.micro))

    def unobserved(self, tensor: int, error: str, phase: str = "forward") -> None:
        self.unseen.append((self.tensors[tensor], error))

    def wants(self, tensor: int) -> bool:
        return True

    def keep(self, tensor: int, value: Any) -> None:
        self.kept[tensor] = value

    def hand_over(self, tensor: int, value: Any) -> None:
        self.kept[tensor] = value()

    def event(self, kind: str, part: str = "", values: Any = None, source: Any = None) -> None:
        self.events.append((self.step, kind, part, dict(values or {}), source))

    def scalar(self, name: str, value: float) -> None:
        self.scalars.append((self.step, name, value))

    def loss(self, value: float) -> None:
        self.losses.append(value)

    def forward(self, network: str, training: bool) -> None:
        self.calls.append(f"forward {network} {training}")

    def forwarded(self, network: str) -> None:
        self.calls.append(f"forwarded {network}")

    def backward(self) -> None:
        self.calls.append("backward")
        self.micro += 1

    def before_update(self, optimizer: str) -> None:
        self.calls.append(f"before_update {optimizer}")

    def updated(self, optimizer: str) -> None:
        self.calls.append(f"updated {optimizer}")
        self.step += 1
        self.micro = 0

    def weights_changed(self) -> None:
        self.calls.append("weights_changed")
        self.step += 1
        self.micro = 0

    def gap(self, what: str, reason: str, remedy: str = "") -> None:
        self.gaps.append((what, reason, remedy))

    def failed(self, where: str, error: BaseException) -> None:
        self.failures.append((where, error))

    # asking

    def of(self, kind: str, **wanted: Any) -> list[Seen]:
        return [
            one
            for one in self.seen
            if one.info.kind == kind and all(getattr(one.info, name) == value for name, value in wanted.items())
        ]

    def names(self, kind: str) -> list[str]:
        return list(dict.fromkeys(one.info.name for one in self.of(kind)))

    def kinds(self, kind: str) -> list[dict]:
        return [values for _, one, _, values, _ in self.events if one == kind]
