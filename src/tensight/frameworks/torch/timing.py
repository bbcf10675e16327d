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

from tensight.frameworks.patches import Patches
from tensight.frameworks.timing import Clock, Done, Pauses, Plan, Sampler, Steps
from tensight.frameworks.torch.timing_changes import Changes
from tensight.frameworks.torch.timing_compile import Compiling
from tensight.frameworks.torch.timing_facts import environment, memory, replicas
from tensight.frameworks.torch.timing_held import Held
from tensight.frameworks.torch.timing_loaders import TimedLoaders
from tensight.frameworks.torch.timing_located import Located
from tensight.frameworks.torch.timing_places import Places
from tensight.frameworks.torch.timing_trace import Tracing
from tensight.records.timing import Part5, Profile, Window

_is_compiling = torch.compiler.is_compiling
_FEW = 3  # rounds after which it is clear that there is no optimizer, or no backward pass
_grad_enabled = torch.is_grad_enabled


class TorchTiming:
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
        self.plan = plan
        self.clock = Clock()
        self.pauses = Pauses()
        self.steps = Steps(plan, self.clock, self._turn)
        self.on = False
        self.inside = False  # an outermost module
        self._patches = Patches()
        self._failed = failed
        self._go_on = go_on
        self._sampler: Sampler | None = None
        self._sampled: Sampler | None = None
        self._tracing = Tracing(trace_file)
        self._located = Located(failed)
        self._compiling = Compiling()
        self._held = Held()
        self._places = Places()
        self.loaders = TimedLoaders()
        self._changes = Changes(changes)
        self._models: list[weakref.ref[nn.Module]] = []
        self._known: set[int] = set()
        self._ending = False  # the step ends with the next batch, forward or backward pass
        self._round: list[int] = []  # optimizers in the order they step
        self._last_of_round = 0
        self._seen = {"update": 0, "backward": 0, "forward": 0}
        self._annotations: list[Any] = []
        self._step_annotation: Any = None
        self._batch = 0
        self._fresh = True
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
        self.pauses.attach()
        self.on = True
        self.clock.cut()
        if not self.plan.warm:
            self.steps.window = "clock"
            self._turn("clock")

    def detach(self) -> None:
        """Take off everything; what runs is stopped first."""
        self.on = False
        self._stop_windows()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.pauses.detach()
        self._patches.restore()

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
        if self._fresh:
            self._fresh = False
            self.clock.cut()  # what the program did before its first step is no part of it
        self.clock.enter(part)
        if self.steps.window == "trace":
            note = torch.profiler.record_function(f"tensight: {part}")
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
        if not self._seen["update"] and self._seen["backward"] > _FEW:
            self._ending = True  # weights are updated without an optimizer

    def _forward_ended(self, module: nn.Module) -> None:
        if self._has_weights(module):
            self._seen["forward"] += 1
            if not self._seen["update"] and not self._seen["backward"] and self._seen["forward"] > _FEW:
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

    def boundary(self) -> None:
        """A batch, a forward or a backward pass begins: if the step's update is done, the step is over."""
        if not self._ending:
            return
        self._ending = False
        self._close_step()
        if self.steps.window is None and not self._go_on:
            self.on = False
            raise Done

    def _close_step(self) -> None:
        window = self.steps.window
        if window is None:
            return
        self.clock.settle()
        collecting, collections = self.pauses.cut()
        batches, iterators = self.loaders.cut()
        facts: dict[str, Any] = {
            "collecting": collecting,
            "collections": collections,
            "batches": batches,
            "iterators": iterators,
            "batch": self._batch,
        }
        if window == "trace":  # reading it lets go of the interpreter: samples of clocked steps would gather here
            facts["memory"] = memory()
        if window == "locate":
            facts["backward_operators"] = self._located.cut()
            self._held.look()
        self._batch = 0
        if self._step_annotation is not None:
            self._step_annotation.__exit__(None, None, None)
            self._step_annotation = None
        self.clock.skip()
        self.steps.ended(facts)
        if self.steps.window == "trace":
            self._annotate_step()

    def _annotate_step(self) -> None:
        self._step_annotation = torch.profiler.record_function(f"ProfilerStep#{self.steps.number}")
        self._step_annotation.__enter__()
        self.clock.skip()

    def _turn(self, window: Window | None) -> None:
        """A new window begins."""
        try:
            self._stop_windows()
            self.pauses.on = self.loaders.counting = window == "clock"
            if window == "clock":
                self._compiling.warm()
                self._sampler = Sampler(self.clock)
                self._sampler.start()
            elif window == "trace":
                self._held.look()
                self._tracing.start()
            elif window == "locate":
                self._held.look()
                if self._compiling.used():
                    self._located.note = "operators inside compiled code have no lines"
                else:
                    self._located.start()
        except Exception as error:
            self._failed(f"profiling, {window}", error)

    def _stop_windows(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
            self._sampled, self._sampler = self._sampler, None
        if self._step_annotation is not None:
            self._step_annotation.__exit__(None, None, None)
            self._step_annotation = None
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
