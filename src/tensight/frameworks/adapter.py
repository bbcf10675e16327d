"""The contract between a framework and the rest of Tensight.

An adapter finds the parts of the user's training (models, optimizers, losses, loaders, scalers, schedulers), looks
at their tensors at the right moments and tells a `Sink` about it. It decides nothing: what a step is, how deep to
look, what is bad and what it means is decided behind the sink.

Rules every adapter keeps, proven by `tensight.testing.adapter_suite`:
  * The training is bitwise the same with and without the adapter: no random number drawn, no tensor changed, no
    gradient kept alive, no order of operations changed, no user hook displaced.
  * No exception leaves an adapter: every entry point runs under `guard`, which reports to `Sink.failed` and goes on.
  * It is attached after the framework was imported by the user's program and never imports one itself first.
  * Statistics are taken in the hook, since tensors may be changed in place right after.
  * `sink.depth` is read in each hook; at `Depth.LIGHT` a hook returns at once (or is taken off).

What an adapter tells, in order of execution:
  network(Network), part(Part)     whenever found or changed
  tensor(TensorInfo) -> None       before its first observation; ids come from `new_id()`
  forward(network, training)       the outermost model was called            (`forwarded` when it returned)
  observe(id, stats, …)            a tensor was looked at
  event(kind, part, values, source)
  loss(value)                      a loss as a number, once per backward
  backward()                       a backward pass has ended                  → the clock counts micro-steps
  before_update(optimizer)         an optimizer is about to step; its gradients were observed before this call
  updated(optimizer)               an optimizer has stepped; gradients and weights of this step were observed before
                                   this call                                 → the clock may end the step
  weights_changed()                weights changed after a backward without an optimizer object

Values of a 'loss' event (as far as cheap; at most every step that is watched at Depth.ALL, always on the first ten
steps): function ('cross_entropy', 'mse_loss', 'expression', …), prediction_shape, target_shape ('64x1'),
result_shape, reduction, prediction_min, prediction_max, prediction_row_sum_min, prediction_row_sum_max (sum over the
class dimension), prediction_from ('softmax', 'sigmoid', 'log_softmax', '' : the operator that made it), classes,
target_min, target_max, target_distinct, target_entropy (nats, of class labels in this batch), target_variance,
target_equals_input.
Values of a 'batch' event: index (in the epoch), size, repeat_of (step that was fed the same bytes), and per tensor
i: shape.i, min.i, max.i, mean.i, std.i, nan.i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from tensight.frameworks.tap import Tap
from tensight.records import Depth, Graph, Level, Needs, Network, Part, Phase, Source, Stats, TensorInfo
from tensight.records.event import Value

Array = np.ndarray[Any, Any]
ORDINARY = Needs()


class Sink(Protocol):
    """What an adapter reports to. Implemented by `tensight.capture.recorder.Recorder`."""

    depth: Depth  # of the step that is running
    level: Level
    step: int
    keep_tensors: bool  # whether tensors of this step are to be kept (`keep`)
    tap: Tap | None  # who wants tensors and operators of this step themselves
    structure: bool  # whether the structure of this step is to be told (`graph`)
    looking: float  # seconds of this step that went into probes, where the adapter counts them
    looking_since: float  # when the probe that runs now has begun (`time.perf_counter`); 0: none runs

    def new_id(self) -> int: ...
    def network(self, network: Network) -> None: ...
    def part(self, part: Part) -> None: ...
    def tensor(self, info: TensorInfo) -> None: ...
    def needs(self, info: TensorInfo) -> Needs:
        """What active watchpoints ask of this tensor; changes only between steps (see `needs_version`)."""
        ...

    @property
    def needs_version(self) -> int: ...

    def observe(
        self, tensor: int, stats: Stats, phase: Phase = "forward", shape: tuple[int, ...] | None = None
    ) -> None: ...
    def unobserved(self, tensor: int, error: str, phase: Phase = "forward") -> None:
        """A tensor that was there and could not be judged: `error` is an ErrorCode."""
        ...

    def wants(self, tensor: int) -> bool:
        """While `keep_tensors` is set: whether the values of the tensor that was just observed are to be kept."""
        ...

    def keep(self, tensor: int, value: Array) -> None: ...
    def hand_over(self, tensor: int, value: Callable[[], Array]) -> None:
        """To the tap, of a step that it takes `outputs_only`: a tensor that nobody else looks at."""
        ...

    def event(
        self, kind: str, part: str = "", values: Mapping[str, Value] | None = None, source: Source | None = None
    ) -> None: ...
    def scalar(self, name: str, value: float) -> None: ...
    def loss(self, value: float) -> None: ...
    def forward(self, network: str, training: bool) -> None: ...
    def forwarded(self, network: str) -> None: ...
    def backward(self) -> None: ...
    def before_update(self, optimizer: str) -> None:
        """An optimizer is about to step and its gradients were observed; may raise SystemExit (`--guard`)."""
        ...

    def updated(self, optimizer: str) -> None: ...
    def weights_changed(self) -> None: ...
    def graph(self, graph: Graph) -> None:
        """The structure of the step in which `structure` was set; told when that step is over."""
        ...

    def gap(self, what: str, reason: str, remedy: str = "") -> None:
        """Something of the training that is not watched, for the coverage line."""
        ...

    def failed(self, where: str, error: BaseException) -> None:
        """An error inside Tensight; `where` names the probe."""
        ...


class Adapter(Protocol):
    """A framework, as the rest of Tensight sees it."""

    name: ClassVar[str]  # 'torch'
    cannot: ClassVar[Mapping[str, str]]  # capability → why; published in docs/reference/frameworks.md

    def version(self) -> str: ...
    def attach(self, sink: Sink) -> None:
        """Begin to find and watch. The framework is already imported."""
        ...

    def detach(self) -> None:
        """Take off everything; the framework is left as it was found."""
        ...

    def add(self, model: object, optimizer: object | None = None) -> None:
        """Watch a model (and optimizer) by name, as `tensight.watch` does, instead of finding them."""
        ...

    def owns(self, value: object) -> bool:
        """Whether this is a tensor, model or optimizer of this framework."""
        ...

    def depth_changed(self) -> None:
        """Called between steps when `sink.depth`, `sink.level` or `sink.needs_version` has changed."""
        ...

    def statistics(self, tensor: object, needs: Needs = ORDINARY, before: object | None = None) -> Stats:
        """One pass over a tensor, where it lives. `before` is an earlier copy of it, for `Stats.change`."""
        ...

    def numpy(self, tensor: object) -> Array:
        """A copy as NumPy; dtypes NumPy does not have come as float32, which holds them exactly."""
        ...


__all__ = ["Adapter", "Array", "Sink"]
