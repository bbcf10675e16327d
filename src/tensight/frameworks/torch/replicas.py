"""Training on several ranks: which rank this is, and whether gradients are averaged between replicas.

`DistributedDataParallel` averages gradients only when its own forward was called. A loop that calls the wrapped module
instead trains each replica alone, silently.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of, user_source
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.watching import Watching
from tensight.records import Part, Source
from tensight.records.event import Value

_MOST_REDUCED = 10_000
_LOOKED_AT = 32  # updates after which no further gradient is expected to be summed by hand
_is_compiling = torch.compiler.is_compiling
_world = getattr(getattr(torch.distributed, "distributed_c10d", None), "_world", None)


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
        self._sum: tuple[weakref.ref, list[float]] | None = None  # the first that was summed, and what came out
        self._exchanged: set[int] = set()  # parameters whose values were put together over ranks since the last update
        self._exchanged_in: Source | None = None
        self._exchange_told = False
        self._updated_in: Source | None = None
        self._by_hand = False  # gradients are averaged by hand
        self._partly = 0  # updates so far at which only some were seen to be
        self._seen: set[int] = set()  # parameters whose gradients were summed then
        self._wrappers: list[tuple[weakref.ref, str]] = []
        self._forwarded = False  # a wrapper's own forward was called since the last update
        self._averaged = False  # somebody has averaged by hand
        self._line: Source | None = None  # of the last call of an outermost module
        self._backward = False
        self.passes = 0  # backward passes so far: ranks that make other updates than each other differ in them
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

    def alone(self) -> bool:
        """Whether this process trains by itself. Asked in every step: first without the calls of `is_initialized`."""
        return getattr(_world, "_default_pg", self) is None or self.position is None

    @property
    def position(self) -> tuple[int, int] | None:
        """Rank and number of ranks where there are several; None otherwise."""
        found = position()
        return found if found is not None and found[1] > 1 else None

    @property
    def by_hand(self) -> bool:
        """Whether the training averages the gradients of all parameters itself."""
        return self._by_hand

    @property
    def partly(self) -> bool:
        """Whether only some of the gradients were seen to be averaged so."""
        return self._partly > 0

    @property
    def summed_in(self) -> Source | None:
        """The line that sums gradients over ranks."""
        return self._reduced_in

    @property
    def updated_in(self) -> Source | None:
        """The line that makes an update, where nobody averages anything: there it was forgotten."""
        if self._updated_in is None:
            self._updated_in = user_source()
        return self._updated_in

    def is_summed(self, parameter: torch.Tensor) -> bool:
        """Where only some are seen: whether this parameter's gradient is summed over ranks by hand."""
        return id(parameter) in self._seen

    def exchanged(self) -> bool:
        """Whether all weights were put together over ranks since the last update: now they should be alike."""
        exchanged, self._exchanged = self._exchanged, set()
        trained = [
            id(tensor)
            for model in self.networks.models.values()
            for held in model.parameters
            if held.optimizer and (tensor := held.ref()) is not None
        ]
        if not trained or not exchanged.issuperset(trained):
            return False
        if not self._exchange_told:
            self._exchange_told = True
            settings: dict[str, Value] = {"ranks": torch.distributed.get_world_size()}
            self.watching.sink.part(Part("exchange", "all_reduce", "all_reduce", settings, self._exchanged_in))
        return True

    def _exchanges(self, tensor: Any) -> None:
        """A tensor is summed over ranks between two steps: the weights, or copies of them."""
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or not tensor.is_floating_point():
            return
        few = _few(tensor)
        for model in self.networks.models.values():
            for held in model.parameters:
                own = held.ref() if held.optimizer else None
                if (
                    own is not None
                    and id(own) not in self._exchanged
                    and own.shape == tensor.shape
                    and _few(own) == few
                ):
                    self._exchanged.add(id(own))
                    self._exchanged_in = user_source()
                    return

    def wrappers(self) -> list[Any]:
        """The wrappers that are alive."""
        return [wrapper for ref, _ in self._wrappers if (wrapper := ref()) is not None]

    def called(self) -> None:
        """An outermost module is about to be called."""
        if not self._stages:
            self._watch_stages()
        if self._wrappers and not self._forwarded and not self._averaged:
            self._line = _line_outside() or user_source()

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
        self.passes += 1

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
        """Gradients summed over ranks by hand: replicas that are meant to be alike."""
        reduced, self._reduced = self._reduced, {}
        self._backward = False
        if not reduced or not self._looking:
            return
        trained = [
            (tensor, tensor.grad)
            for model in self.networks.models.values()
            for held in model.parameters
            if held.optimizer and (tensor := held.ref()) is not None and tensor.grad is not None
        ]
        whole = sum(gradient.numel() for _, gradient in trained)
        self._seen.update(id(tensor) for tensor, gradient in trained if gradient.data_ptr() in reduced)
        if not trained or 2 * sum(reduced.values()) < whole:
            return
        everything = whole in reduced.values() or all(id(tensor) in self._seen for tensor, _ in trained)
        self._partly = 0 if everything else self._partly + 1
        if not self._by_hand:
            self._by_hand = True
            settings: dict[str, Value] = {"ranks": torch.distributed.get_world_size(), "summed": self._still_a_sum()}
            self.watching.sink.part(Part("wrapper", "all_reduce", "all_reduce", settings, self._reduced_in))

    @property
    def _looking(self) -> bool:
        """Whether it is still of interest which gradients are summed by hand."""
        return not self._by_hand or 0 < self._partly < _LOOKED_AT

    def _still_a_sum(self) -> bool:
        """Whether an optimizer is about to use a gradient as the sum over ranks has left it, divided by nobody."""
        if self._sum is None:
            return False
        ref, values = self._sum
        tensor = ref()
        return tensor is not None and any(values) and _few(tensor) == values

    def _came_out(self, tensor: Any, op: Any) -> None:
        """A sum over ranks is there."""
        summing = op is None or op == torch.distributed.ReduceOp.SUM
        if self._sum is None and summing and type(tensor) is torch.Tensor and tensor.device.type == "cpu":
            self._sum = (weakref.ref(tensor), _few(tensor))

    def _summed(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and self._looking and len(self._reduced) < _MOST_REDUCED:
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
        settings: dict[str, Value] = {"ranks": count, "broadcast_buffers": bool(wrapper.broadcast_buffers)}
        self.watching.sink.part(Part("wrapper", name, kind, settings, source))

    def _around_forward(self, original: Any) -> Any:
        def forward(wrapper, *args, **kwargs):
            self._forwarded = True
            return original(wrapper, *args, **kwargs)

        return forward

    def _around_averaging(self, original: Any) -> Any:
        summed = self.watching.probe("replicas", self._summed)

        averages = self.watching.probe("replicas", self._averages)
        came_out = self.watching.probe("replicas", self._came_out)
        exchanges = self.watching.probe("replicas", self._exchanges)

        def collective(*args, **kwargs):
            looked = False
            if self._backward and not _is_compiling():
                tensor = args[0] if args else kwargs.get("tensor")
                if self._wrappers and not self._averaged:
                    self._averaged = bool(averages(tensor))
                elif not self._wrappers and self.watching.active:
                    summed(tensor)
                    looked = not self._by_hand and self._sum is None
            elif not self._wrappers and self.watching.active and not _is_compiling():
                exchanges(args[0] if args else kwargs.get("tensor"))
            result = original(*args, **kwargs)
            if looked and result is None:  # nothing to wait for
                came_out(tensor, args[1] if len(args) > 1 else kwargs.get("op"))
            return result

        return collective


def _line_outside() -> Source | None:
    """The user's line that is running outside the methods of modules: one of the wrapped module may call its parts."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            first = code.co_varnames[0] if code.co_argcount else ""
            if not isinstance(frame.f_locals.get(first), torch.nn.Module):
                return source_of(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def _few(tensor: torch.Tensor) -> list[float]:
    """The first values of a tensor."""
    return [float(value) for value in tensor.detach().reshape(-1)[:8]]
