"""Gradients before an update and weights after it, with how they changed."""

from __future__ import annotations

import math

import torch

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.memory import is_lack_of_memory
from tensight.frameworks.torch.networks import Held, Model, Networks
from tensight.frameworks.torch.room import Room
from tensight.frameworks.torch.shards import local
from tensight.frameworks.torch.statistics import Job, copy_values
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.records import Kind

FREE_COPIES = 8 << 20  # bytes of weights that are copied whole in each step
SHARE_OF_COPIES = 0.15  # of larger ones
BUFFERS_EVERY = 10  # steps between two looks at buffers

Found = list[tuple[Held, torch.Tensor]]


class Updates:
    """Looks at the parameters around one update. Copies stand in memory of our own, used again from step to step."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self.copy_limit = 0  # bytes that copies of weights may take; 0: a share of the weights
        self._turn = 0  # the weight whose turn is next
        self._found: Found = []
        self._later = False
        self._scale = 1.0
        self._norm: float | None = None
        self._copies: IdentityMap[torch.Tensor, torch.Tensor] = IdentityMap()  # gone with the weight
        self._rooms: IdentityMap[torch.Tensor, Room] = IdentityMap()
        self._said_limit = False

    def before(self, found: Found, later: bool, scale: float) -> None:
        """An update is about to happen. `later`: gradients are made inside it, by a closure."""
        self._found, self._later, self._scale = _once(found), later, scale
        self._norm = None
        if not later:
            self._norm = self.look_at_gradients(self._found, scale)
        self.copy(self._found)

    def after(self, found: Found | None) -> float | None:
        """The update has happened. Answers the norm of all gradients. `found`: what is known better now."""
        found, self._found = self._found if found is None else _once(found), []
        if self._later:
            self._norm = self.look_at_gradients(found, self._scale)
        self.look_at_weights(found)
        return self._norm

    def look_at_start(self, model: Model) -> None:
        """Parameters and buffers as they are before the network is called, those that are new."""
        model.started = True
        jobs: list[tuple[Watched, Job]] = []
        for held in model.parameters:
            tensor = held.ref()
            if tensor is not None and not held.tables:
                watched = self._tensor(held, tensor, "weight" if tensor.requires_grad else "frozen")
                jobs.append((watched, Job(tensor, watched.needs)))
        self.watching.look_at_many(jobs, "forward")

    def look_at_gradients(self, found: Found, scale: float = 1.0) -> float | None:
        jobs = []
        for held, tensor in found:
            grad = tensor.grad
            if grad is not None:
                jobs.append((self._tensor(held, grad, "gradient"), grad))
        return self._look_at_gradients(jobs, scale)

    def look_at_given(self, found: list[tuple[Held, torch.Tensor]], scale: float = 1.0) -> float | None:
        """Gradients that `torch.autograd.grad` answered."""
        return self._look_at_gradients([(self._tensor(held, grad, "gradient"), grad) for held, grad in found], scale)

    def _look_at_gradients(self, jobs: list[tuple[Watched, torch.Tensor]], scale: float) -> float | None:
        if not jobs:
            return None
        stats = self.watching.look_at_many(
            [(watched, Job(grad, watched.needs, None, scale)) for watched, grad in jobs], "backward"
        )
        if any(one.bad for one in stats):
            return math.inf if not any(one.nan for one in stats) else math.nan
        return math.sqrt(sum((one.l2 or 0.0) ** 2 for one in stats))

    def copy(self, found: Found) -> None:
        """Copy those weights whose change somebody asks for; where that takes much memory, a part in each step."""
        asked = []
        for held, tensor in found:
            watched = self._tensor(held, tensor, "weight" if tensor.requires_grad else "frozen")
            if watched.needs.change and tensor.layout is torch.strided and tensor.device.type != "meta":
                asked.append(local(tensor))
        chosen = self._turn_of(asked)
        if not chosen:
            return
        try:
            copy_values(self._targets(asked[0], chosen), chosen)
        except (RuntimeError, MemoryError, OSError) as error:
            if not is_lack_of_memory(error):
                raise
            for tensor in chosen:
                self._copies.pop(tensor)
            self.watching.sink.gap("the change of some weights", "there was no memory for a copy", "free some memory")

    def _turn_of(self, asked: list[torch.Tensor]) -> list[torch.Tensor]:
        """The weights whose turn it is; copies of the others are given up, so that none is compared with an old one."""
        sizes = [tensor.numel() * tensor.element_size() for tensor in asked]
        whole = sum(sizes)
        limit = self.copy_limit or max(FREE_COPIES, int(SHARE_OF_COPIES * whole))
        if whole <= limit:
            return asked
        chosen: list[torch.Tensor] = []
        taken = 0
        start = self._turn % len(asked)
        for place in (*range(start, len(asked)), *range(start)):
            if sizes[place] > limit:
                self._too_large(limit)
                continue
            if taken + sizes[place] > limit:
                self._turn = place
                break
            taken += sizes[place]
            chosen.append(asked[place])
        kept = {id(tensor) for tensor in chosen}
        for tensor in asked:
            if id(tensor) not in kept:
                self._copies.pop(tensor)
        return chosen

    def _too_large(self, limit: int) -> None:
        if not self._said_limit:
            self._said_limit = True
            self.watching.sink.gap(
                "the change of some weights", f"a copy would take more than {limit >> 20} MB", "raise --memory-limit"
            )

    def _targets(self, first: torch.Tensor, chosen: list[torch.Tensor]) -> list[torch.Tensor]:
        """Where the copies go. Weights that are updated together, known by their first one, share a room."""
        known = [self._copies.get(tensor) for tensor in chosen]
        if all(copy is not None and _alike(copy, tensor) for copy, tensor in zip(known, chosen)):
            return [copy for copy in known if copy is not None]
        room = self._rooms.get(first)
        if room is None:
            room = self._rooms[first] = Room()
        targets = room.hand_out(chosen)
        for tensor, copy in zip(chosen, targets):
            self._copies[tensor] = copy
        return targets

    def look_at_weights(self, found: Found) -> None:
        jobs = []
        networks: dict[str, bool] = {}
        for held, tensor in found:
            watched = self._tensor(held, tensor, "weight" if tensor.requires_grad else "frozen")
            part = local(tensor)
            before = self._copies.get(part) if watched.needs.change else None
            jobs.append((watched, Job(part, watched.needs, before)))
            networks[held.network] = True
        jobs += self._others(list(networks), {id(tensor) for _, tensor in found})
        self.watching.look_at_many(jobs, "update")

    def _others(self, networks: list[str], seen: set[int]) -> list[tuple[Watched, Job]]:
        """Frozen parameters once, buffers now and then."""
        jobs = []
        for name in networks:
            model = self.networks.models.get(name)
            if model is None:
                continue
            if not model.frozen_seen:
                model.frozen_seen = True
                for held in model.parameters:
                    tensor = held.ref()
                    if tensor is not None and not tensor.requires_grad and id(tensor) not in seen:
                        watched = self._tensor(held, tensor, "frozen")
                        jobs.append((watched, Job(tensor, watched.needs)))
            step = self.watching.sink.step
            if model.buffers_seen < 0 or step - model.buffers_seen >= BUFFERS_EVERY:
                model.buffers_seen = step
                for held in model.buffers:
                    holder = held.holder() if held.holder is not None else None
                    tensor = None if holder is None else holder._buffers.get(held.slot)  # may have been replaced
                    if tensor is not None:
                        watched = self._tensor(held, tensor, "buffer")
                        jobs.append((watched, Job(tensor, watched.needs)))
        return jobs

    def _tensor(self, held: Held, tensor: torch.Tensor, kind: Kind) -> Watched:
        known = held.tables.get(kind)
        if known is not None and known.version == self.watching.needs_version:  # nearly always
            return known
        return self.watching.watched(
            held.tables,
            kind,
            tensor,
            kind,
            held.node,
            held.slot,
            held.network,
            phase="backward" if kind == "gradient" else "update",
        )


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.shape, a.dtype, a.stride(), a.device) == (b.shape, b.dtype, b.stride(), b.device)


def _once(found: Found) -> Found:
    """Each tensor once, whatever it is tied to."""
    seen: set[int] = set()
    return [(held, tensor) for held, tensor in found if not (id(tensor) in seen or seen.add(id(tensor)))]  # type: ignore[func-returns-value]
