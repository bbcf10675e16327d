"""What all probes of the adapter share: the sink, how deep to look, which module runs, and the tensors known so far."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.adapter import Array, Sink
from tensight.frameworks.torch import compiled_switch, statistics
from tensight.frameworks.torch.lending import Pool
from tensight.frameworks.torch.measured import Measured
from tensight.frameworks.torch.shards import local, shard_of
from tensight.frameworks.torch.statistics import CannotJudge, Job, dtype_name
from tensight.records import Depth, Kind, Needs, Phase, Source, Stats, TensorInfo

_graph_task = torch._C._current_graph_task_id
_now = time.perf_counter
_COPIES = Pool()


class Watched:
    """A tensor that is known to the sink. `needs` is what active watchpoints ask of it."""

    __slots__ = ("id", "info", "needs", "shape", "version")

    def __init__(self, info: TensorInfo, needs: Needs, version: int) -> None:
        self.info = info
        self.id = info.id
        self.shape = info.shape
        self.needs = needs
        self.version = version


class Last:
    """A tensor that was looked at, not kept alive; `sharing` are those that its gradient hook serves."""

    __slots__ = ("needs", "ref", "sharing", "stats", "version")

    def __init__(self, ref: weakref.ref, version: int, needs: Needs, stats: Stats) -> None:
        self.ref = ref
        self.version = version
        self.needs = needs
        self.stats = stats
        self.sharing: list[Watched] | None = None


class Scope:
    """A module call that is running: its path, the number of the call, and what was called in it so far."""

    __slots__ = ("call", "counts", "entry", "wrapped")

    def __init__(self, entry: Any, call: int, wrapped: bool = False) -> None:
        self.entry = entry  # networks.Entry
        self.call = call
        self.wrapped = wrapped  # a wrapper was called, which will call the module itself
        self.counts: dict[str, int] | None = None

    def count(self, function: str) -> int:
        """How often a function was called in this call of the module before."""
        if self.counts is None:
            self.counts = {}
        number = self.counts.get(function, 0)
        self.counts[function] = number + 1
        return number


class Watching:
    """The state of an attached adapter. Flags are plain attributes: hooks read them on every call."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.attached = True
        self.active = True  # attached and awake
        self.asleep = False  # steps are counted and losses heard, nothing else
        self.deep = False  # module outputs are looked at
        self.output_gradients = False  # and what comes back to them
        self.gradients = False  # gradients and weights are looked at
        self.inputs = False  # level module: inputs of modules too
        self.keep = False
        self.values_only = False  # a dump takes outputs, and nobody else looks at them in this step
        self.needs_version = -1
        self.scopes: list[Scope] = []
        self.outermost = False  # inside a call of an outermost module
        self.observing = False  # and its tensors are looked at
        self.inside = 0  # probes that run now: what they calculate is no part of the training
        self.phase: Phase = "forward"
        self.network = ""  # name of the network that was called last
        self.stamp = 0  # counts backward passes and updates: calls of a module are numbered in between
        self.backwards = 0  # ever
        self.scale = 1.0  # what the loss of the running backward pass was multiplied by
        self.thread = threading.get_ident()
        self.unzeroed = False  # an update has used gradients that nobody has cleared since
        self.measured: Measured | None = None  # at level op: what operators' results got already
        self._last: Last | None = None  # the tensor that was looked at last
        self.depth_changed()

    def depth_changed(self) -> None:
        sink = self.sink
        self.asleep = self.attached and sink.depth < Depth.LIGHT
        self.active = self.attached and not self.asleep
        self.output_gradients = self.active and sink.depth >= Depth.ALL
        self.deep = self.output_gradients or (self.active and sink.tap is not None)
        compiled_switch.look(self.deep)
        self.gradients = self.active and sink.depth >= Depth.GRADIENTS
        self.inputs = self.deep and sink.level != "watch"
        self.keep = sink.keep_tensors
        self.values_only = sink.tap is not None and sink.tap.outputs_only and not self.output_gradients
        if sink.tap is None:
            _COPIES.release()
        self.needs_version = sink.needs_version

    def stop(self) -> None:
        """All probes become inert, also those that somebody else keeps a hold of."""
        self.attached = self.asleep = False
        self.active = self.deep = self.output_gradients = self.gradients = self.inputs = self.observing = False
        compiled_switch.look(False)
        self._last = None

    def foreign(self) -> bool:
        """Whether this is no place to look: recomputation inside a backward pass, another thread, a transform."""
        return (
            _graph_task() != -1
            or (self.outermost and threading.get_ident() != self.thread)
            or torch._C._get_tracing_state() is not None
            or torch._C._functorch.peek_interpreter_stack() is not None
        )

    def probe(self, where: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose errors go to the sink and never to the user."""
        failed = self.failed

        sink = self.sink

        def inner(*args: Any) -> Any:
            if not self.inside:
                sink.looking_since = _now()
            self.inside += 1
            try:
                return function(*args)
            except Exception as error:
                failed(where, error)
                return None
            finally:
                self.inside -= 1
                if not self.inside:
                    sink.looking += _now() - sink.looking_since
                    sink.looking_since = 0.0

        return inner

    def failed(self, where: str, error: BaseException) -> None:
        """Report an error of ours; nobody is left to tell when that fails too."""
        with contextlib.suppress(Exception):
            self.sink.failed(where, error)

    # tensors

    def watched(
        self,
        table: dict[Any, Watched],
        key: Any,
        tensor: torch.Tensor,
        kind: Kind,
        node: str,
        slot: str,
        network: str,
        *,
        call: int = 0,
        type: str = "",
        op: str = "",
        phase: Phase = "forward",
        source: Source | None = None,
    ) -> Watched:
        """The known tensor of this key, introduced to the sink when it is new."""
        known = table.get(key)
        if known is None:
            info = TensorInfo(
                id=self.sink.new_id(),
                kind=kind,
                node=node,
                slot=slot,
                network=network,
                call=call,
                shape=tuple(local(tensor).shape),
                dtype=dtype_name(tensor.dtype),
                device=str(tensor.device),
                type=type,
                op=op,
                phase=phase,
                source=source,
                shard=shard_of(tensor),
            )
            self.sink.tensor(info)
            known = table[key] = Watched(info, self.sink.needs(info), self.needs_version)
        elif known.version != self.needs_version:
            known.needs = self.sink.needs(known.info)
            known.version = self.needs_version
        return known

    def look(self, watched: Watched, tensor: torch.Tensor, phase: Phase, scale: float = 1.0) -> None:
        """Take statistics of a tensor now and tell the sink."""
        try:
            known = self.measured.find(tensor, watched.needs) if self.measured is not None and scale == 1.0 else None
            stats = known or statistics.one(tensor, watched.needs, None, scale)
        except CannotJudge as error:
            self.sink.unobserved(watched.id, error.code, phase)
            return
        self.tell(watched, tensor, stats, phase)

    def look_at_output(self, watched: Watched, tensor: torch.Tensor, phase: Phase) -> list[Watched] | None:
        """Like `look`. A tensor that passes through several modules is read once.

        Answers the list of those that share the gradient hook of this very tensor, None when it has no hook yet.
        """
        if self.values_only:
            self._last = None
            try:
                self.sink.hand_over(watched.id, lambda: to_numpy(tensor, soon=True))
            except CannotJudge as error:
                self.sink.unobserved(watched.id, error.code, phase)
            return None
        version = -1 if tensor.is_inference() else tensor._version
        last = self._last
        if last is not None and last.ref() is tensor and last.version == version >= 0 and last.needs == watched.needs:
            self.tell(watched, tensor, last.stats, phase)
            return last.sharing
        try:
            known = self.measured.find(tensor, watched.needs) if self.measured is not None else None
            stats = known or statistics.one(tensor, watched.needs)
        except CannotJudge as error:
            self._last = None
            self.sink.unobserved(watched.id, error.code, phase)
            return None
        self._last = Last(weakref.ref(tensor), version, watched.needs, stats)
        self.tell(watched, tensor, stats, phase)
        return None

    def share_hook(self, sharing: list[Watched]) -> None:
        """The tensor that was looked at last has a gradient hook now, which serves `sharing`."""
        if self._last is not None:
            self._last.sharing = sharing

    def look_at_many(self, found: list[tuple[Watched, Job]], phase: Phase) -> list[Stats]:
        """Statistics of many tensors by one call; those that cannot be judged are told and left out."""
        known = [self._known(job) for _, job in found] if self.measured is not None else [None] * len(found)
        unknown = [job for (_, job), stats in zip(found, known) if stats is None]
        read = iter(statistics.many(unknown))
        answers = []
        for (watched, job), stats in zip(found, known):
            answer = stats or next(read)
            if isinstance(answer, CannotJudge):
                self.sink.unobserved(watched.id, answer.code, phase)
            else:
                self.tell(watched, job.tensor, answer, phase)
                answers.append(answer)
        return answers

    def _known(self, job: Job) -> Stats | None:
        """Statistics that an operator's result got already."""
        if self.measured is None or job.before is not None or job.scale != 1.0:
            return None
        return self.measured.find(job.tensor, job.needs)

    def tell(self, watched: Watched, tensor: torch.Tensor, stats: Stats, phase: Phase) -> None:
        if not stats.count and watched.info.shard is not None:
            return  # this rank holds nothing of it, which is no news
        shape = tensor.shape
        if shape != watched.shape:
            shape = local(tensor).shape
        self.sink.observe(watched.id, stats, phase, None if shape == watched.shape else tuple(shape))
        if self.keep and self.sink.wants(watched.id):
            self.sink.keep(watched.id, to_numpy(tensor, soon=self.sink.tap is not None))


def to_numpy(tensor: torch.Tensor, *, copy: bool = True, soon: bool = False) -> Array:
    """A copy as NumPy; dtypes NumPy does not have come as float32, which holds them exactly.

    Without `copy` it may stand in the tensor's own memory, for who only looks and keeps nothing. A copy that is given
    up `soon` leaves its memory to the next one.
    """
    with torch.no_grad():
        values = statistics.readable(tensor) if not tensor.is_complex() else tensor.resolve_conj()
        values = values.detach()
        if values.dtype.is_floating_point and values.dtype not in (torch.float16, torch.float32, torch.float64):
            values = values.to(torch.float32)
        if copy and values.device.type == "cpu":
            return _COPIES.copy(values) if soon else values.clone().numpy()
        return values.cpu().numpy()
