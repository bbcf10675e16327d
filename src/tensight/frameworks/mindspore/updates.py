"""Optimizers: the gradients they are given, and what they do to the weights."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn

from tensight.frameworks.mindspore.networks import OPTIMIZERS, Known, Networks
from tensight.frameworks.mindspore.schedules import Schedules
from tensight.frameworks.mindspore.unscaling import Unscaling
from tensight.frameworks.mindspore.values import Unjudged, number, view
from tensight.frameworks.mindspore.watching import Watching, free_name
from tensight.frameworks.source import user_source
from tensight.records import Part, Source
from tensight.records.event import Value

Call = Callable[..., Any]


class Optimizer:
    """An optimizer that was found."""

    def __init__(self, name: str, cell: nn.Cell, source: Source | None) -> None:
        self.name = name
        self.ref = weakref.ref(cell)
        self.source = source
        self.told: Part | None = None
        self.rates: list[float] = []  # of the update that is running

    def parameters(self) -> list[Parameter]:
        cell = self.ref()
        if cell is None:
            return []
        groups = getattr(cell, "param_groups", None)
        if groups is not None:
            return [parameter for group in groups for parameter in group["params"]]
        return list(cell.parameters)


class Updates:
    """Stands around every optimizer's call."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self._watching = watching
        self._networks = networks
        self._created: list[tuple[weakref.ref[nn.Cell], Source | None]] = []
        self._by_hand: dict[int, int] = {}  # network → checksum of its weights when a backward ended
        self.all: list[Optimizer] = []
        self.pending = 0  # backward passes since the last update
        self.steps = 0  # of all optimizers
        self.schedules: Schedules | None = None
        self.unscaling: Unscaling | None = None

    # finding

    def patch_init(self, original: Call) -> Call:
        """`Optimizer.__init__`, after which the optimizer is known, so that a round of several is known at once."""

        def __init__(cell: nn.Cell, *args: Any, **kwargs: Any) -> None:
            original(cell, *args, **kwargs)
            self._watching.probe("optimizer", self._born, cell)

        return __init__

    def _born(self, cell: nn.Cell) -> None:
        self._created.append((weakref.ref(cell), user_source()))

    def declare_new(self) -> None:
        """Tell the optimizers that were made since the last time."""
        created, self._created = self._created, []
        for ref, source in created:
            cell = ref()
            if cell is not None and isinstance(cell, OPTIMIZERS):
                self.find(cell, source)
        for optimizer in self.all:
            self._tell(optimizer)

    def find(self, cell: nn.Cell, source: Source | None = None) -> Optimizer:
        for optimizer in self.all:
            if optimizer.ref() is cell:
                return optimizer
        name = free_name(type(cell).__name__, (optimizer.name for optimizer in self.all))
        found = Optimizer(name, cell, source)
        self.all.append(found)
        self._tell(found)
        return found

    def _tell(self, optimizer: Optimizer) -> None:
        """The optimizer as a part; again when networks it belongs to were found meanwhile."""
        cell = optimizer.ref()
        if cell is None:
            return
        held, unknown, changed = [], 0, set()
        settings = settings_of(cell) | {"absent_gradients": "zeros"}  # MindSpore never answers None
        replaced = []
        for parameter in optimizer.parameters():
            weight = self._networks.weight(parameter)
            if weight is None or not weight.network:
                unknown += 1
                replaced.append(str(parameter.name))
                continue
            held.append(f"{weight.network}:{weight.name}")
            if weight.holder != optimizer.name:
                weight.holder = optimizer.name
                changed.add(weight.network)
        if held and replaced:  # a layer that takes another's place takes its name too, and leaves it in the optimizer
            settings["unknown_names"] = ", ".join(replaced[:100])
        part = Part("optimizer", optimizer.name, type(cell).__name__, settings, optimizer.source, tuple(held), unknown)
        if part != optimizer.told:
            optimizer.told = part
            self._watching.sink.part(part)
        for network in self._networks.all:
            if network.name in changed:
                self._networks.declare(network)

    # a step

    def call(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        """The optimizer's own call, with gradients looked at before and weights after."""
        watching = self._watching
        optimizer = watching.probe("optimizer", self._before, cell, args, kwargs)
        result = original(cell, *args, **kwargs)
        if optimizer is not None:
            watching.probe("weights", self.weights_after, optimizer)
            watching.probe("optimizer step", self.stepped, optimizer)
        return result

    def _before(self, cell: nn.Cell, args: Any, kwargs: Any) -> Optimizer:
        self.declare_new()
        optimizer = self.find(cell)
        watching = self._watching
        self.read_rates(optimizer)
        gradients = args[0] if args else next(iter(kwargs.values()), ())
        if self.unscaling is not None:
            watching.probe("loss scale", self.unscaling.used, optimizer.name, cell, gradients)
        if watching.some:
            scale = float(getattr(cell, "loss_scale", 1.0) or 1.0)
            for parameter, gradient in zip(optimizer.parameters(), gradients):
                known = self._networks.stranger(parameter)
                tensor = gradient if isinstance(gradient, Tensor) else parameter
                watching.look(known.gradient(watching, tensor), gradient, "backward", None, scale)
            self.keep_before(optimizer)
        watching.sink.before_update(optimizer.name)
        return optimizer

    def keep_before(self, optimizer: Optimizer) -> None:
        """Copy the weights whose change by this update is asked for; the copy's memory is used again."""
        sink = self._watching.sink
        for parameter in optimizer.parameters():
            known = self._networks.stranger(parameter)
            if not known.value(self._watching, parameter).needs(sink).change:
                known.before = None
                continue
            now = view(parameter)
            kept = known.before
            if kept is None or kept.shape != now.shape or kept.dtype != now.dtype:
                known.before = now.copy()
            else:
                np.copyto(kept, now)

    def weights_after(self, optimizer: Optimizer) -> None:
        watching = self._watching
        if not watching.some:
            return
        mine = {id(parameter) for parameter in optimizer.parameters()}
        for parameter in optimizer.parameters():
            known = self._networks.stranger(parameter)
            watching.look(known.value(watching, parameter), parameter, "update", known.before)
        for network in self._networks.all:
            if any(id(weight.ref()) in mine for weight in network.weights):
                self._look_rest(network)

    def _look_rest(self, network: Known) -> None:
        """Buffers, and weights that are to be trained and that no optimizer holds."""
        watching = self._watching
        for weight in network.weights:
            tensor = weight.ref()
            left = weight.kind == "weight" and not weight.holder
            if tensor is not None and (weight.kind == "buffer" or left):
                slot = weight.value(watching, tensor)
                watching.look(slot, tensor, "update", weight.before)
                weight.before = view(tensor).copy() if left and slot.needs(watching.sink).change else None

    def stepped(self, optimizer: Optimizer, values: dict[str, Value] | None = None) -> None:
        """An optimizer has stepped: tell it, last of all."""
        watching = self._watching
        rates = optimizer.rates
        for index, rate in enumerate(rates):
            watching.sink.scalar("lr" if index == 0 else f"lr/{optimizer.name}/{index}", rate)
        cell = optimizer.ref()
        if self.schedules is not None and cell is not None:
            watching.probe("schedule", self.schedules.stepped, cell, rates[0] if rates else None)
        said: dict[str, Value] = {"lr": rates[0] if rates else None, **(values or {})}
        watching.sink.event("optimizer_step", optimizer.name, said, user_source())
        self.pending = 0
        self.steps += 1
        self._by_hand.clear()
        watching.turn += 1
        watching.sink.updated(optimizer.name)

    def read_rates(self, optimizer: Optimizer) -> None:
        """The learning rates of the coming update; afterwards a schedule would tell the next ones."""
        cell = optimizer.ref()
        self._watching.busy = True  # a schedule is a cell of its own, which is no part of the training
        try:
            optimizer.rates = [] if cell is None else learning_rates(cell)
        finally:
            self._watching.busy = False

    # weights without an optimizer

    def observe_all(self, network: Known) -> None:
        """Weights as they are before the first update."""
        for weight in network.weights:
            tensor = weight.ref()
            if tensor is not None and not getattr(tensor, "has_init", False):
                self._watching.look(weight.value(self._watching, tensor), tensor, "forward")

    def backward_ended(self, network: str) -> None:
        """A backward pass has ended."""
        self.pending += 1
        self._watching.turn += 1
        if not self.all:
            self._by_hand = {id(known): checksum(known) for known in self._networks.all}
        # gradients are handed out anew each time: nothing of an earlier pass is left in them
        values: dict[str, Value] = {"micro": self.pending - 1, "cleared": True, "training": True}
        self._watching.sink.event("backward", network, values, user_source())
        self._watching.sink.backward()

    def before_forward(self) -> None:
        """Weights that changed since a backward pass without an optimizer: that was a step too."""
        if not self._by_hand or self.all:
            return
        before, self._by_hand = self._by_hand, {}
        moved = [n for n in self._networks.all if id(n) in before and checksum(n) != before[id(n)]]
        if not moved:
            return
        for network in moved:
            if self._watching.some:
                for weight in network.weights:
                    tensor = weight.ref()
                    if tensor is not None and weight.kind == "weight":
                        self._watching.look(weight.value(self._watching, tensor), tensor, "update")
        self.pending = 0
        self._watching.sink.weights_changed()


def checksum(network: Known) -> int:
    """Changes when a weight does."""
    total = 0
    for weight in network.weights:
        tensor = weight.ref()
        if tensor is not None and weight.kind == "weight":
            try:
                total = zlib.crc32(np.ascontiguousarray(view(tensor)).view(np.uint8).data, total)
            except Unjudged:
                continue
    return total


def learning_rates(cell: nn.Cell) -> list[float]:
    """The rate of the coming update per group. Only schedules of MindSpore itself are asked: they have no side."""
    groups = getattr(cell, "param_groups", None)
    if groups is not None:
        found = [number(group.get("lr")) for group in groups]
        return [rate for rate in found if rate is not None]
    rates = cell.learning_rate
    if isinstance(rates, Tensor) or not hasattr(rates, "__iter__"):
        rates = [rates]
    answer = []
    for rate in rates:
        if isinstance(rate, nn.Cell):
            if not type(rate).__module__.startswith("mindspore."):
                continue
            rate = rate(cell.global_step).reshape(())
        value = number(rate)
        if value is not None:
            answer.append(value)
    return answer


def settings_of(cell: nn.Cell) -> dict[str, Value]:
    found: dict[str, Value] = {}
    rate = getattr(cell, "learning_rate", None)
    if isinstance(rate, Tensor) and rate.size == 1:
        found["lr"] = number(rate)
    for name in ("momentum", "weight_decay", "beta1", "beta2", "eps", "nesterov", "use_nesterov", "loss_scale"):
        value = getattr(cell, name, None)
        plain = value if isinstance(value, (bool, str)) else number(value)
        if plain is not None:
            found[name] = plain
    for name, value in (getattr(cell, "defaults", None) or {}).items():
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
    return found
