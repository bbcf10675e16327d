"""Checksums of what ranks should hold alike, on a schedule: weights, gradients, buffers, averaged copies.

Nothing is sent. Each rank tells its own checksums, and whoever reads what all ranks have told compares them. The
schedule is made so that ranks meet without a word: the first steps, then multiples of a power of two, which each rank
doubles by itself while its checks cost too much. What one rank skips, the next common multiple has again.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tensight.frameworks.torch.checksums import checksums
from tensight.frameworks.torch.collectives import Collectives
from tensight.frameworks.torch.networks import Model, Networks
from tensight.frameworks.torch.replicas import Replicas
from tensight.frameworks.torch.shards import shard_of
from tensight.frameworks.torch.watching import Watching
from tensight.frameworks.torch.wrappers import walk
from tensight.records import Depth, Part, Source
from tensight.records.event import Value

FIRST = 4  # updates that are checked one by one
EARLY = 64  # updates that are checked one by one while that is cheap: where ranks part is then known to the step
FREE = 0.2  # processor seconds that those may take together
EVERY = 8  # updates between two checks at first
SHARE = 0.005  # of the training's time that checks may take
COSTS = 5  # checks whose median cost counts
SLOWEST = 1 << 14  # updates between two checks

Members = list[tuple[str, torch.Tensor]]


class Group:
    """Tensors that the same ranks should hold alike.

    `kind`: 'weight', 'gradient', 'buffer', 'copy', 'alone' (a network that nobody keeps alike),
    'exchanged' (weights that ranks have just put together), 'start' (weights before the first update),
    'forgotten' (weights whose gradients nobody was seen to sum, beside others that are), 'single' (weights of a
    training in which nobody was seen to put anything together), 'collective'.
    """

    def __init__(self, kind: str, network: str, ranks: tuple[int, ...], source: Source | None = None) -> None:
        self.kind = kind
        self.network = network
        self.ranks = ranks
        self.source = source  # the line that a difference points to
        self.members: Members = []

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.network} on {','.join(map(str, self.ranks))}"


class Agreement:
    """Takes the checksums when they are due."""

    def __init__(self, watching: Watching, networks: Networks, replicas: Replicas, collectives: Collectives) -> None:
        self.watching = watching
        self.networks = networks
        self.replicas = replicas
        self.collectives = collectives
        self.every = EVERY
        self._waiting: list[tuple[str, dict[str, Value]]] = []  # told when somebody listens: part, values
        self._parts: dict[str, tuple[str, ...]] = {}
        self._updates = 0  # so far: ranks make the same, while a step may turn out to have ended only later
        self._since = (-1, 0.0)  # update and time of the last check
        self._exchanges = 0  # of weights between ranks, that were looked at
        self._costs: deque[float] = deque(maxlen=COSTS)  # processor seconds of the last checks
        self._spent = 0.0  # processor seconds of all checks
        self._before = 0.0  # those of this update's gradients

    def due(self, update: int) -> bool:
        """
        >>> agreement = Agreement(None, None, None, None)
        >>> all(agreement.due(update) for update in range(EARLY))
        True
        >>> agreement._spent = 2 * FREE
        >>> [update for update in range(20) if agreement.due(update)]
        [0, 1, 2, 3, 8, 16]
        """
        return update < FIRST or update % self.every == 0 or (update < EARLY and self._spent < FREE)

    def before_update(self) -> None:
        """Gradients, as all ranks should have them now."""
        if self.replicas.position is None:
            return
        if self._exchanges < FIRST and self.replicas.exchanged():
            self._exchanges += 1
            self._take(list(self._put_together()))
        if self.due(self._updates):
            used = time.thread_time()
            start = [] if self._updates else [*self._replicated(self._start)]
            found = [*start, *self._replicated(self._gradients), *self._alone(), *self._forgotten(), *self._single()]
            self._take(found)
            self._before = time.thread_time() - used

    def after_update(self) -> None:
        """Weights, buffers and copies, behind the update."""
        if self.replicas.alone():
            return
        if self.due(self._updates):
            began = time.perf_counter(), time.thread_time()
            self._take([*self._replicated(self._held), *self._copies(), *self._sharded()])
            self._take_order()
            self._pace(*began)
        self.collectives.forget()
        if self._waiting and self.watching.sink.depth >= Depth.LIGHT:
            waiting, self._waiting = self._waiting, []
            for name, values in waiting:
                late = values["update"] != self._updates
                self.watching.sink.event("agreement", name, {**values, "late": late})
        self._updates += 1

    def _pace(self, began: float, used: float) -> None:
        """A check must not cost more than its share; one that was disturbed by others tells nothing of that."""
        self._costs.append(time.thread_time() - used + self._before)
        self._spent += self._costs[-1]
        before, then = self._since
        self._since = (self._updates, time.perf_counter())
        if before < 0 or len(self._costs) < COSTS:
            return
        a_step = (began - then) / (self._updates - before)
        while statistics.median(self._costs) > SHARE * a_step * self.every and self.every < SLOWEST:
            self.every *= 2

    def _take(self, groups: list[Group]) -> None:
        for group in groups:
            if not group.members:
                continue
            self._tell(group, tuple(name for name, _ in group.members))
            sums = checksums([tensor for _, tensor in group.members])
            self._wait(group, sums)

    def _wait(self, group: Group, sums: list[int], words: str = "") -> None:
        values: dict[str, Value] = {
            "update": self._updates,
            "step": self.watching.sink.step,
            "sums": _text(sums),
            "passes": self.replicas.passes,
        }
        if words:
            values["words"] = words
        self._waiting.append((group.name, values))

    def _take_order(self) -> None:
        """The collectives of this step, in order."""
        sums, words = self.collectives.told()
        position = self.replicas.position
        if sums and position is not None:
            group = Group("collective", "", tuple(range(position[1])))
            self._tell(group, tuple(f"collective {place}" for place in range(len(sums))))
            self._wait(group, sums, " | ".join(words))

    def _tell(self, group: Group, names: tuple[str, ...]) -> None:
        if self._parts.get(group.name) != names:
            self._parts[group.name] = names
            settings: dict[str, Value] = {"network": group.network, "ranks": " ".join(map(str, group.ranks))}
            self.watching.sink.part(Part("agreement", group.name, group.kind, settings, group.source, names))

    # what should be alike

    def _replicated(self, choose: Any) -> Iterator[Group]:
        for network, module, ranks, ignored in self._wrapped():
            yield from choose(network, module, ranks, ignored)

    def _wrapped(self) -> Iterator[tuple[str, nn.Module, tuple[int, ...], frozenset[str]]]:
        """Networks whose gradients somebody averages: by a wrapper, or by hand."""
        for wrapper in self.replicas.wrappers():
            entry = self.networks.entries.get(next(iter(walk(wrapper)))[1])
            ranks = tuple(torch.distributed.get_process_group_ranks(wrapper.process_group))
            ignored = frozenset(getattr(wrapper, "parameters_to_ignore", ()))
            if len(ranks) > 1 and not _apart_by_design(wrapper):
                yield entry.network if entry is not None else "", wrapper.module, ranks, ignored
        position = self.replicas.position
        if self.replicas.by_hand and position is not None:
            for model in self.networks.models.values():
                root = model.ref()
                if root is not None and any(held.optimizer for held in model.parameters):
                    yield model.name, root, tuple(range(position[1])), frozenset(self._unseen(model))

    def _unseen(self, model: Model) -> list[str]:
        """Parameters whose gradients were not seen to be summed by hand, where those of others were."""
        if not self.replicas.partly:
            return []
        tensors = ((held, held.ref()) for held in model.parameters)
        return [held.name for held, tensor in tensors if tensor is not None and not self.replicas.is_summed(tensor)]

    def _forgotten(self) -> Iterator[Group]:
        """Those parameters: where ranks begin alike, they are no parts of one network but were left out."""
        position = self.replicas.position
        if not self.replicas.partly or position is None:
            return
        for model in self.networks.models.values():
            unseen = set(self._unseen(model))
            group = Group("forgotten", model.name, tuple(range(position[1])), self.replicas.summed_in)
            for held in model.parameters:
                tensor = held.ref()
                if held.name in unseen and held.optimizer and tensor is not None and _plain(tensor):
                    group.members.append((held.name, tensor))
            yield group

    def _single(self) -> Iterator[Group]:
        """Trained networks where no gradient is averaged at all: each rank may be meant to train alone."""
        position = self.replicas.position
        if self.replicas.wrappers() or self.replicas.by_hand or position is None:
            return
        for model in self.networks.models.values():
            group = Group("single", model.name, tuple(range(position[1])), self.replicas.updated_in)
            for held in model.parameters:
                tensor = held.ref()
                if tensor is not None and not _plain(tensor):
                    break  # parts of one network
                if held.optimizer and tensor is not None:
                    group.members.append((held.name, tensor))
            else:
                yield group

    def _put_together(self) -> Iterator[Group]:
        """Weights that ranks have just put together, as those of local steps are now and then."""
        ranks = tuple(range(self.replicas.position[1])) if self.replicas.position is not None else ()
        for model in self.networks.models.values():
            group = Group("exchanged", model.name, ranks)
            for held in model.parameters:
                tensor = held.ref()
                if held.optimizer and tensor is not None and _plain(tensor):
                    group.members.append((held.name, tensor))
            yield group

    def _alone(self) -> Iterator[Group]:
        """Trained networks that no wrapper knows of, beside one that has a wrapper."""
        wrappers, position = self.replicas.wrappers(), self.replicas.position
        if not wrappers or position is None:
            return
        known = {id(one) for wrapper in wrappers for one in wrapper.module.parameters()}
        for model in self.networks.models.values():
            found = [
                (held, tensor) for held in model.parameters if (tensor := held.ref()) is not None and held.optimizer
            ]
            if found and all(_plain(tensor) and id(tensor) not in known for _, tensor in found):
                group = Group("alone", model.name, tuple(range(position[1])))
                group.members = [(held.name, tensor) for held, tensor in found]
                yield group

    def _held(self, network: str, module: nn.Module, ranks: tuple[int, ...], ignored: frozenset[str]) -> list[Group]:
        weights, buffers = Group("weight", network, ranks), Group("buffer", network, ranks)
        for path, part in walk(module):
            for slot, tensor in part._parameters.items():
                if tensor is not None and _plain(tensor) and _name(path, slot) not in ignored:
                    weights.members.append((_name(path, slot), tensor))
            if getattr(part, "track_running_stats", False):
                continue  # each rank follows its own batches, until the wrapper's next forward
            for slot, tensor in part._buffers.items():
                if tensor is not None and _plain(tensor):
                    buffers.members.append((_name(path, slot), tensor))
        return [weights, buffers]

    def _start(self, network: str, module: nn.Module, ranks: tuple[int, ...], ignored: frozenset[str]) -> list[Group]:
        model = self.networks.models.get(network)
        start = Group("start", network, ranks, model.source if model is not None else None)
        start.members = self._held(network, module, ranks, ignored)[0].members
        return [start]

    def _gradients(
        self, network: str, module: nn.Module, ranks: tuple[int, ...], ignored: frozenset[str]
    ) -> list[Group]:
        found = Group("gradient", network, ranks)
        for path, part in walk(module):
            for slot, tensor in part._parameters.items():
                if tensor is None or tensor.grad is None or _name(path, slot) in ignored:
                    continue
                if tensor in self.networks.optimizer_of and _plain(tensor.grad):
                    found.members.append((_name(path, slot), tensor.grad))
        return [found]

    def _copies(self) -> Iterator[Group]:
        """Averages and teachers: modules like the wrapped one, which no optimizer trains."""
        for network, module, ranks, _ in self._wrapped():
            shapes = [tuple(one.shape) for one in module.parameters()]
            number = 0
            for other in self.networks.created.all():
                if type(other) is not type(module) or other is module:
                    continue
                theirs = list(other.named_parameters())
                if [tuple(one.shape) for _, one in theirs] != shapes:
                    continue
                if any(one in self.networks.optimizer_of for _, one in theirs):
                    continue
                number += 1
                group = Group("copy", f"{network}, {number}" if number > 1 else network, ranks)
                group.members = [(name, one) for name, one in theirs if _plain(one)]
                yield group

    def _sharded(self) -> Iterator[Group]:
        """DTensors that several ranks hold the same part of."""
        groups: dict[tuple[str, tuple[int, ...]], Group] = {}
        for model in self.networks.models.values():
            for held in model.parameters:
                tensor = held.ref()
                shard = None if tensor is None else shard_of(tensor)
                if tensor is not None and shard is not None and len(shard.ranks) > 1 and not shard.partial:
                    group = groups.setdefault((model.name, shard.ranks), Group("weight", model.name, shard.ranks))
                    group.members.append((held.name, tensor))
        yield from groups.values()


def _apart_by_design(wrapper: Any) -> bool:
    """Replicas that train apart for some steps and are averaged now and then."""
    hooks = getattr(wrapper, "_comm_hooks", None) or ()
    return any("localSGD" in getattr(hook[0], "__qualname__", "") for hook in hooks if isinstance(hook, tuple))


def _text(sums: list[int]) -> str:
    return "".join(f"{one:016x}" for one in sums)


def _name(path: str, slot: str) -> str:
    return f"{path}.{slot}" if path else slot


def _plain(tensor: torch.Tensor) -> bool:
    return shard_of(tensor) is None and tensor.device.type != "meta"
