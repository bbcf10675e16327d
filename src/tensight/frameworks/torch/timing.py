"""Takes the profile of a PyTorch training: clocked, traced and located steps.

Clocked steps carry a handful of time stamps and a thread that looks which line runs; traced steps run under
torch.profiler; located steps show every operator to us with the user's line and module.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.optim import optimizer

from tensight.frameworks.timing import Plan
from tensight.frameworks.timing_base import FEW, StepTiming
from tensight.frameworks.torch.timing_changes import Changes
from tensight.frameworks.torch.timing_compile import Compiling
from tensight.frameworks.torch.timing_facts import environment, memory, peak, replicas
from tensight.frameworks.torch.timing_held import Held
from tensight.frameworks.torch.timing_loaders import TimedLoaders
from tensight.frameworks.torch.timing_located import Located
from tensight.frameworks.torch.timing_places import Places
from tensight.frameworks.torch.timing_trace import Tracing, mark
from tensight.records.timing import Part5, Profile, Window

_is_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled


class TorchTiming(StepTiming):
    """Follows an unmodified script from step to step and takes what each window is for."""

    def __init__(
        self,
        plan: Plan,
        *,
        trace_file: Path | None = None,
        changes: Sequence[str] = (),
        go_on: bool = False,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(plan, trace_file=trace_file, go_on=go_on, failed=failed)
        self.inside = False  # an outermost module
        self._tracing = Tracing(trace_file)
        self._located = Located(failed)
        self._compiling = Compiling()
        self._held = Held()
        self._places = Places()
        self.loaders = TimedLoaders()
        self._changes = Changes(changes)
        self._models: list[weakref.ref[nn.Module]] = []
        self._known: set[int] = set()
        self._round: list[int] = []  # optimizers in the order they step
        self._last_of_round = 0
        self._seen = {"update": 0, "backward": 0, "forward": 0}
        self._annotations: list[Any] = []
        self._step_annotation: Any = None
        self._batch = 0
        self._hooks: list[Any] = []

    # putting on and taking off

    def attach(self) -> None:
        wrap = self._patches.wrap
        wrap(nn.Module, "__call__", self._around_module)
        wrap(torch.autograd, "backward", lambda original: self._around(original, "backward", ends=True))
        wrap(torch.autograd, "grad", lambda original: self._around(original, "backward", ends=True))
        wrap(torch.optim.Optimizer, "zero_grad", lambda original: self._around(original, "update"))
        wrap(nn.utils, "clip_grad_norm_", lambda original: self._around(original, "update"))
        wrap(nn.utils, "clip_grad_value_", lambda original: self._around(original, "update"))
        wrap(torch.amp.GradScaler, "step", lambda original: self._around(original, "update"))
        wrap(torch.amp.GradScaler, "unscale_", lambda original: self._around(original, "update"))
        self.loaders.attach(self._patches, self)
        self._hooks = [
            optimizer.register_optimizer_step_pre_hook(self._before_update),
            optimizer.register_optimizer_step_post_hook(self._after_update),
        ]
        self._changes.attach(self._patches)
        self._compiling.attach(self._patches)
        self._places.attach(self._patches)
        self._started()

    def detach(self) -> None:
        super().detach()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    # parts of a step

    def _around(self, original: Any, part: Part5, *, ends: bool = False) -> Any:
        clock = self.clock

        def around(*args: Any, **kwargs: Any) -> Any:
            if not self.on or not clock.mine():
                return original(*args, **kwargs)
            if ends and not clock.stack:
                self.boundary()
            self.enter(part)
            try:
                return original(*args, **kwargs)
            finally:
                self.leave()
                if part == "backward" and not clock.stack:
                    self._backward_ended()

        return around

    def _around_module(self, original: Any) -> Any:
        clock = self.clock

        def __call__(module, *args, **kwargs):
            if self.inside or not self.on or _is_compiling() or not clock.mine():
                return original(module, *args, **kwargs)
            if not clock.stack:
                self.boundary()
            self._met(module, args)
            self.inside = True
            self.enter("forward")
            try:
                if self._changes.calls:
                    return self._changes.call(original, module, args, kwargs)
                return original(module, *args, **kwargs)
            finally:
                self.inside = False
                self.leave("forward" if _grad_enabled() else "rest")
                self._forward_ended(module)

        return __call__

    def enter(self, part: Part5) -> None:
        self._begins()
        self.clock.enter(part)
        if self.steps.window == "trace":
            note = mark(part)
            note.__enter__()
            self._annotations.append(note)

    def leave(self, idle: Part5 = "rest") -> None:
        if self._annotations and len(self._annotations) >= len(self.clock.stack):
            self._annotations.pop().__exit__(None, None, None)
        self.clock.leave(idle)

    def _before_update(self, one: Any, *_: Any) -> None:
        if self.on and self.clock.mine():
            self.enter("update")

    def _after_update(self, one: Any, *_: Any) -> None:
        if not self.on or not self.clock.mine():
            return
        self.leave()
        self._seen["update"] += 1
        key = id(one)
        if key not in self._round:
            self._round.append(key)
            self._last_of_round = key
        self._ending = self._ending or key == self._last_of_round

    def _backward_ended(self) -> None:
        self._seen["backward"] += 1
        if not self._seen["update"] and self._seen["backward"] > FEW:
            self._ending = True  # weights are updated without an optimizer

    def _forward_ended(self, module: nn.Module) -> None:
        seen = self._seen
        if not seen["update"] and not seen["backward"] and self._has_weights(module):
            seen["forward"] += 1
            if seen["forward"] > FEW:
                self._ending = True  # there is no training: a step is a call of the model

    def _met(self, module: nn.Module, args: tuple) -> None:
        if not self._batch and args and isinstance(args[0], torch.Tensor) and args[0].dim():
            self._batch = int(args[0].shape[0])
        if id(module) not in self._known:
            self._known.add(id(module))
            if self._has_weights(module):
                self._models.append(weakref.ref(module))
                self._changes.met(module)

    @staticmethod
    def _has_weights(module: nn.Module) -> bool:
        return next(module.parameters(), None) is not None

    # steps and windows

    def _facts(self) -> dict[str, Any]:
        window = self.steps.window
        batches, iterators = self.loaders.cut()
        facts: dict[str, Any] = {"batches": batches, "iterators": iterators, "batch": self._batch}
        if window == "locate":  # whose time counts for nothing
            facts["memory"] = memory()
            facts["backward_operators"] = self._located.cut()
            self._held.look()
        self._batch = 0
        self._end_annotation()
        return facts

    def _next_step(self) -> None:
        if self.steps.window == "trace":
            self._step_annotation = torch.profiler.record_function(f"ProfilerStep#{self.steps.number}")
            self._step_annotation.__enter__()
            self.clock.skip()

    def _end_annotation(self) -> None:
        if self._step_annotation is not None:
            self._step_annotation.__exit__(None, None, None)
            self._step_annotation = None

    def _open(self, window: Window | None) -> None:
        self.loaders.counting = window == "clock"
        if window == "clock":
            self._compiling.warm()
        elif window == "trace":
            self._held.look()
            self._tracing.start()
        elif window == "locate":
            self._held.look()
            if self._compiling.used():
                self._located.note = "operators inside compiled code have no lines"
            else:
                self._located.start()

    def _close(self) -> None:
        self._end_annotation()
        self._tracing.stop()
        self._located.stop()

    # the result

    def profile(self) -> Profile:
        """Everything that was taken. Called when the script is over."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = self._tracing.result([time.step for time in self.steps.times if time.window == "trace"])
            found = self._located.result()
            models = [model for model in (ref() for ref in self._models) if model is not None]
            facts = {**environment(models), **replicas(models), **traced.facts, **found.facts, **self._places.facts()}
            if facts.get("flops"):
                facts["peak_flops"] = peak(models)
        if self._sampled is not None:
            facts["samples"] = self._sampled.samples
            facts["sampling_seconds"] = self._sampled.seconds
        notes = [note for note in (*traced.notes, found.note, *self._changes.notes) if note]
        growing = dict(zip((t.step for t in self.steps.times if t.window == "trace"), traced.backward_nodes))
        return Profile(
            framework="torch",
            version=str(torch.__version__),
            device=str(facts.get("device", "cpu")),
            steps=tuple(_counted(time, growing) for time in self.steps.times),
            operators=traced.operators,
            lines=self._sampled.lines() if self._sampled is not None else (),
            loop=self._sampled.loop() if self._sampled is not None else (),
            modules=found.modules,
            syncs=found.syncs,
            casts=found.casts,
            copies=found.copies,
            doubles=(*self._places.asks_for_float64(), *found.doubles) if found.doubles else (),
            loaders=self.loaders.records(),
            compiling=self._compiling.record(),
            collecting=self.pauses.record(),
            memory=traced.memory,
            spans=traced.spans,
            held=self._held.growing(),
            facts=facts,
            notes=tuple(notes),
        )


def _counted(time: Any, nodes: dict[int, int]) -> Any:
    return msgspec.structs.replace(time, backward_operators=nodes[time.step]) if time.step in nodes else time
