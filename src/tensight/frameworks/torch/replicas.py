"""Training on several ranks: which rank this is, and whether gradients are averaged between replicas.

`DistributedDataParallel` averages gradients only when its own forward was called. A loop that calls the wrapped module
instead trains each replica alone, silently.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching
from tensight.records import Part, Source
from tensight.records.event import Value

_MOST_REDUCED = 10_000
_is_compiling = torch.compiler.is_compiling


def position() -> tuple[int, int] | None:
    """Rank and number of ranks of the process group; None while there is none."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def backend() -> str:
    """What the process group talks over: 'gloo'; '' while there is none."""
    return str(torch.distributed.get_backend()) if position() is not None else ""


class Replicas:
    """Watches the wrapper and what goes past it."""

    def __init__(self, watching: Watching, patches: Patches, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self._reduced: dict[
            int, int
        ] = {}  # where tensors lie that were summed over ranks since the backward pass → size
        self._reduced_in: Source | None = None
        self._by_hand = False  # gradients of all parameters are averaged by hand
        self._wrappers: list[tuple[weakref.ref, str]] = []
        self._forwarded = False  # a wrapper's own forward was called since the last update
        self._averaged = False  # somebody has averaged by hand
        self._line: Source | None = None  # of the last call of an outermost module
        self._backward = False
        self._patches = patches
        self._stages = False  # stages of a pipeline were met
        self._told_stages: set[str] = set()
        if not torch.distributed.is_available():
            return
        wrapper = torch.nn.parallel.DistributedDataParallel
        patches.wrap(wrapper, "__init__", self._around_init)
        patches.wrap(wrapper, "forward", self._around_forward)
        for name in ("all_reduce", "all_gather", "reduce_scatter_tensor", "all_gather_into_tensor"):
            patches.wrap(torch.distributed, name, self._around_averaging)

    @property
    def position(self) -> tuple[int, int] | None:
        """Rank and number of ranks where there are several; None otherwise."""
        found = position()
        return found if found is not None and found[1] > 1 else None

    @property
    def by_hand(self) -> bool:
        """Whether the training averages the gradients of all parameters itself."""
        return self._by_hand

    def wrappers(self) -> list[Any]:
        """The wrappers that are alive."""
        return [wrapper for ref, _ in self._wrappers if (wrapper := ref()) is not None]

    def called(self) -> None:
        """An outermost module is about to be called."""
        if not self._stages:
            self._watch_stages()
        if self._wrappers:
            self._line = user_source()

    def _watch_stages(self) -> None:
        """A schedule of pipeline stages divides gradients by the number of micro-batches itself; it is loaded late."""
        stage = getattr(sys.modules.get("torch.distributed.pipelining.stage"), "_PipelineStageBase", None)
        if stage is None:
            return
        self._stages = True
        tell = self.watching.probe("pipeline", self._scaled)

        def around(original: Any) -> Any:
            def scale_grads(stage, factor):
                tell(stage, factor)
                return original(stage, factor)

            return scale_grads

        if hasattr(stage, "scale_grads"):
            self._patches.wrap(stage, "scale_grads", around)

    def _scaled(self, stage: Any, factor: int) -> None:
        settings: dict[str, Value] = {"stage": stage.stage_index, "stages": stage.num_stages, "divided_by": int(factor)}
        part = Part("pipeline", f"stage {stage.stage_index}", type(stage).__name__, settings)
        if part.name not in self._told_stages:
            self._told_stages.add(part.name)
            self.watching.sink.part(part)

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins."""
        self._backward = True

    def before_update(self) -> None:
        """An optimizer is about to step."""
        if not self._wrappers:
            self._without_wrapper()
        if not self._wrappers or not self._backward:
            return
        alone = not self._forwarded and not self._averaged
        self._forwarded = self._backward = False
        if not alone:
            return
        for ref, name in self._wrappers:
            wrapped = ref()
            if wrapped is None:
                continue
            trained = [key for key, value in wrapped.module.named_parameters() if value.grad is not None]
            if trained:
                values = {"parameter": trained[0], "parameters": len(trained)}
                self.watching.sink.event("replica_alone", name, values, self._line)

    def _without_wrapper(self) -> None:
        """Gradients of every parameter, summed over ranks by hand: replicas that are meant to be alike."""
        reduced, self._reduced = self._reduced, {}
        self._backward = False
        if self._by_hand or not reduced:
            return
        gradients = [
            tensor.grad
            for model in self.networks.models.values()
            for held in model.parameters
            if held.optimizer and (tensor := held.ref()) is not None and tensor.grad is not None
        ]
        whole = sum(gradient.numel() for gradient in gradients)
        if gradients and (all(one.data_ptr() in reduced for one in gradients) or whole in reduced.values()):
            self._by_hand = True
            count = torch.distributed.get_world_size()
            self.watching.sink.part(Part("wrapper", "all_reduce", "all_reduce", {"ranks": count}, self._reduced_in))

    def _summed(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and not self._by_hand and len(self._reduced) < _MOST_REDUCED:
            self._reduced[tensor.data_ptr()] = tensor.numel()
            self._reduced_in = user_source()

    def _averages(self, tensor: Any) -> bool:
        """Whether this is about gradients: one of them, or many put together. A mean for the log is not."""
        if not isinstance(tensor, torch.Tensor):
            return True
        gradients = [
            parameter.grad
            for wrapper in self.wrappers()
            for parameter in wrapper.module.parameters()
            if parameter.grad is not None
        ]
        whole = sum(gradient.numel() for gradient in gradients)
        return 4 * tensor.numel() >= whole or any(tensor.data_ptr() == gradient.data_ptr() for gradient in gradients)

    def _around_init(self, original: Any) -> Any:
        made = self.watching.probe("replicas", self._made)

        def __init__(wrapper, *args, **kwargs):
            original(wrapper, *args, **kwargs)
            made(wrapper, user_source())

        return __init__

    def _made(self, wrapper: Any, source: Source | None) -> None:
        kind = type(wrapper).__name__
        name = kind if not self._wrappers else f"{kind}-{len(self._wrappers) + 1}"
        self._wrappers.append((weakref.ref(wrapper), name))
        count = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        self.watching.sink.part(Part("wrapper", name, kind, {"ranks": count}, source))

    def _around_forward(self, original: Any) -> Any:
        def forward(wrapper, *args, **kwargs):
            self._forwarded = True
            return original(wrapper, *args, **kwargs)

        return forward

    def _around_averaging(self, original: Any) -> Any:
        summed = self.watching.probe("replicas", self._summed)

        averages = self.watching.probe("replicas", self._averages)

        def collective(*args, **kwargs):
            if self._backward and not _is_compiling():
                tensor = args[0] if args else kwargs.get("tensor")
                if self._wrappers and not self._averaged:
                    self._averaged = bool(averages(tensor))
                elif not self._wrappers and self.watching.active:
                    summed(tensor)
            return original(*args, **kwargs)

        return collective
