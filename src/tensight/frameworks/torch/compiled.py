"""torch.compile: module outputs and their gradients, looked at from inside compiled code.

The backend is handed the captured graph with a plan of what to look at (`compiled_plan`). For inductor, marks find the
values in the derived graphs (`compiled_marks`), and probes look at those that compiled code keeps in memory
(`compiled_probes`); the code itself stays as it is. For the backend `eager` the graph is Python and looks are calls in
it; backends that run the derived graphs as Python (`aot_eager`) are looked at the same way (`compiled_aot`). Everywhere
else, and where it would not be safe, nothing is added and the gap is said.
"""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import variable_name
from tensight.frameworks.torch import compiled_calls
from tensight.frameworks.torch.calls import MOST_CALLS, MOST_EVALUATIONS, Calls
from tensight.frameworks.torch.compiled_counts import Counts
from tensight.frameworks.torch.compiled_operators import CompiledOperators, key_of
from tensight.frameworks.torch.compiled_plan import Mark, Plan, line_of, plan
from tensight.frameworks.torch.networks import Entry, Model, Networks
from tensight.frameworks.torch.operators_level import OperatorLevel
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.records import Kind, Phase

_FORWARD, _BACKWARD, _INFERENCE = 0, 1, 2
_attached: list[weakref.ref] = []  # the one that looks now: compiled code outlives an adapter
_NAMED = 6  # modules that a gap names


def look(x: torch.Tensor, key: str, kind: int, indices: list[int]) -> None:
    """Called by compiled code."""
    compiled = _attached[0]() if _attached else None
    if compiled is not None and compiled.watching.deep:
        (compiled.look if indices else compiled.look_at_operator)(x, key, kind, indices)


class Compiled:
    """Watches what torch.compile makes."""

    def __init__(
        self, watching: Watching, networks: Networks, calls: Calls, level: OperatorLevel, patches: Patches
    ) -> None:
        self.watching = watching
        self.networks = networks
        self.calls = calls
        self.counts = Counts()
        self.look = watching.probe("compiled code", self._look)
        self.look_at_operator = watching.probe("compiled code", self._look_at_operator)
        self.operators = CompiledOperators(watching, level)
        self._level = level
        self._patches = patches
        self._plans: dict[str, Plan] = {}
        self._captured: set[str] = set()  # networks of which a graph was captured
        self._shown: set[int] = set()  # modules that any compiled code has shown
        self._said: set[str] = set()
        self._hooked = False
        self._derived = False
        self._prepare = watching.probe("torch.compile", self._inductor)
        self._add = watching.probe("compiled code", self._add_probes)
        _attached[:] = [weakref.ref(self)]
        for name, around in (
            ("_TorchCompileInductorWrapper", self._around_inductor),
            ("_TorchCompileWrapper", self._around),
        ):
            wrapper = getattr(torch, name, None)
            if wrapper is not None:
                patches.wrap(wrapper, "__call__", around)

    # backends

    def _around_inductor(self, original: Any) -> Any:
        takes_settings = "config_patches" in inspect.signature(original).parameters

        def __call__(wrapper, model_, inputs_, **kwargs):
            if not self.watching.attached:
                return original(wrapper, model_, inputs_, **kwargs)
            settings = self._prepare(wrapper, model_, takes_settings)
            if not settings:
                return original(wrapper, model_, inputs_, **kwargs)
            given = kwargs.pop("config_patches", None) or {}
            try:
                return original(wrapper, model_, inputs_, config_patches={**given, **settings}, **kwargs)
            except torch._dynamo.exc.RestartAnalysis:
                raise  # no error: the graph is to be captured anew
            except Exception as error:
                # ours or the user's own: compiled once more as without us, it is raised again if it was the user's
                from tensight.frameworks.torch import compiled_marks

                compiled_marks.remove(model_.graph)
                model_.recompile()
                result = original(wrapper, model_, inputs_, config_patches=given, **kwargs)
                self.watching.failed("torch.compile", error)
                return result

        return __call__

    def _around(self, original: Any) -> Any:
        prepare = self.watching.probe("torch.compile", self._other)

        def __call__(wrapper, model_, inputs_, *args, **kwargs):
            found = prepare(wrapper, model_) if self.watching.attached else None
            if found is None:
                return original(wrapper, model_, inputs_, *args, **kwargs)
            if not found.derived:
                return self._alone(original(wrapper, model_, inputs_, *args, **kwargs))
            from tensight.frameworks.torch import compiled_aot, compiled_marks

            try:
                with compiled_aot.looking(found):
                    return original(wrapper, model_, inputs_, *args, **kwargs)
            except torch._dynamo.exc.RestartAnalysis:
                raise  # no error: the graph is to be captured anew
            except Exception as error:
                compiled_marks.remove(model_.graph)
                model_.recompile()
                result = original(wrapper, model_, inputs_, *args, **kwargs)
                self.watching.failed("torch.compile", error)
                return result

        return __call__

    def _alone(self, graph: Any) -> Any:
        """A graph that runs as Python and looks by itself: functions in it are not told a second time."""
        watching = self.watching

        def run(*args):
            before, watching.observing = watching.observing, False
            try:
                return graph(*args)
            finally:
                watching.observing = before

        return run

    def _inductor(self, wrapper: Any, model: GraphModule, takes_settings: bool) -> dict[str, Any] | None:
        found = self._plan(model)
        found.operators = getattr(self.watching.sink, "operators_ahead", self.watching.sink.level == "op")
        if not found.marks and not found.operators:
            return None
        from torch._inductor import config

        reason = self._hindrance(model, {**_flags(config), **wrapper.config})
        if not takes_settings:
            reason = "this version of PyTorch takes no settings for a single graph"
        if reason:
            self._refuse(found, reason)
            return None
        from tensight.frameworks.torch import compiled_marks, compiled_passes

        if not self._hooked:
            from torch._inductor.graph import GraphLowering
            from torch._inductor.output_code import CompiledFxGraph

            self._hooked = True
            compiled_marks.on_probe(look)
            self._patches.wrap(GraphLowering, "finalize", self._around_finalize)
            self._patches.wrap(CompiledFxGraph, "__call__", self._around_code)
        if found.operators:
            self._gap(
                "operators inside compiled code that are fused with others",
                "compiled code never keeps their values in memory",
                "those whose values it keeps are shown; run without compile to see each operator",
            )
        return compiled_passes.settings(found, {**_flags(config), **wrapper.config})

    def _around_finalize(self, original: Any) -> Any:
        def finalize(graph):
            original(graph)
            if self.watching.attached:
                self._add(graph)

        return finalize

    def _around_code(self, original: Any) -> Any:
        """Operators that compiled code calls are not told a second time."""
        level = self._level

        def __call__(code, inputs):
            level.compiled += 1
            try:
                return original(code, inputs)
            finally:
                level.compiled -= 1

        return __call__

    def _add_probes(self, graph: Any) -> None:
        from tensight.frameworks.torch import compiled_passes, compiled_probes

        found = compiled_passes.plan_now()
        if found is not None:
            compiled_probes.add(graph, partial(key_of, entry_of=self._entry) if found.operators else None)

    @staticmethod
    def _hindrance(model: GraphModule, settings: dict[str, Any]) -> str:
        """Why compiled code had better be left alone; '' when it need not."""
        for node in model.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
                return f"looking at it on {value.device.type} would make the device wait"
        if settings.get("cpp_wrapper"):
            return "cpp_wrapper leaves no Python around the kernels"
        if settings.get("freezing"):
            return "freezing folds its weights into the code"
        if getattr(torch._dynamo.config, "compiled_autograd", False):
            return "compiled autograd derives the backward pass in another way"
        return ""

    def _other(self, wrapper: Any, model: GraphModule) -> Plan | None:
        found = self._plan(model)
        if not found.marks:
            return None
        name = getattr(wrapper.compiler_fn, "__name__", type(wrapper.compiler_fn).__name__)
        from tensight.frameworks.torch import compiled_aot

        if compiled_aot.runs_in_python(wrapper.compiler_fn):
            reason = self._hindrance(model, {})
            if reason:
                self._refuse(found, reason)
                return None
            if not self._derived:
                self._derived = True
                compiled_aot.prepare(self._patches, look)
            compiled_aot.insert(model, found)
            return found
        if name != "eager":
            self._refuse(found, f"the backend {name} is not known to leave room for a look")
            return None
        nodes = {node.name: node for node in model.graph.nodes}
        for index, mark in enumerate(found.marks):
            node = nodes.pop(mark.node, None)
            if node is None:
                continue  # one look at a value serves all modules that it leaves
            with model.graph.inserting_after(node):
                model.graph.call_function(look_in_graph, (node, found.key, index))
        model.recompile()
        return found

    # plans

    def _plan(self, model: GraphModule) -> Plan:
        watching = self.watching
        scope = watching.scopes[0] if watching.outermost and watching.scopes else None
        found = plan(model.graph, self._entry, None if scope is None else scope.entry)
        self._plans[found.key] = found
        networks = {mark.entry.network for mark in found.marks} or ({scope.entry.network} if scope else set())
        self._captured |= networks
        for network in networks:
            self.networks.compiled(network)
        values = self.counts.graph()
        network = next(iter(networks), watching.network)
        source = next((line for node in model.graph.nodes if (line := line_of(node)) is not None), None)
        watching.sink.event("compile", network, values, source)
        known = self.networks.models.get(network)  # asked by name: in a step that is not watched there is no scope
        root = None if known is None else known.ref()
        around = None if root is None else self.networks.entries.get(root)
        compiled_calls.tell(model.graph, watching, self._entry, around)
        if any("checkpoint" in str(node.target) for node in model.graph.nodes if node.op == "call_function"):
            self._gap(
                f"modules of {network} inside torch.utils.checkpoint",
                "compiled code computes them twice, and which of the two is kept is its own choice",
                "what leaves the checkpointed part is watched; run without compile to see its modules",
            )
        watching.sink.scalar("recompiles", float(self.counts.recompiles))
        return found

    def _entry(self, identity: int) -> Entry | None:
        """The module of an identity; its network becomes known by it when it is called from compiled code only."""
        known = self.networks.entries.values.get(identity)
        if known is None:
            module = next((module for module in self.networks.created.all() if id(module) == identity), None)
            if module is None or isinstance(module, nn.modules.loss._Loss):
                return None
            if next(module.parameters(), None) is None:
                return None
            root = self.networks.created.topmost(module)
            self.networks.add(root, variable_name(root), compiled=True)
            known = self.networks.entries.values.get(identity)
        return known

    # looking

    def _look(self, x: torch.Tensor, key: str, kind: int, indices: list[int]) -> None:
        watching = self.watching
        found = self._plans.get(key)
        if found is None:
            return
        if kind == _BACKWARD:
            if not found.looked:
                return
            phase: Phase = "backward"
            scale = watching.scale
        else:
            if watching.foreign():
                return
            if found.begins(indices[0]):
                found.looked = self._may_look(found, kind)
            if not found.looked:
                return
            phase = watching.phase if watching.outermost else "evaluation" if kind == _INFERENCE else "forward"
            scale = 1.0
        for index in indices:
            for mark in found.of(index):
                call = self._call(found, mark, phase)
                if call < MOST_CALLS:
                    found.seen.add(mark.node)
                    self._shown.add(id(mark.entry))
                    watched = self._watched(mark, call, x, phase)
                    watching.look(watched, mark.shaped(x), phase, scale)

    def _look_at_operator(self, x: torch.Tensor, key: str, kind: int, _: list[int]) -> None:
        watching = self.watching
        if kind == _BACKWARD:
            self.operators.look(x, key, "backward")
        elif not watching.foreign():
            outside: Phase = "evaluation" if kind == _INFERENCE else "forward"
            self.operators.look(x, key, watching.phase if watching.outermost else outside)

    def _may_look(self, found: Plan, kind: int) -> bool:
        watching = self.watching
        stamp = watching.stamp
        found.base, found.stamp = (found.base + 1 if found.stamp == stamp else 0), stamp
        if watching.outermost:
            return self.calls.looking
        return kind != _INFERENCE or found.base < MOST_EVALUATIONS

    def _call(self, found: Plan, mark: Mark, phase: Phase) -> int:
        return mark.call if phase == "evaluation" else found.base * found.calls[id(mark.entry)] + mark.call

    def _watched(self, mark: Mark, call: int, x: torch.Tensor, phase: Phase) -> Watched:
        entry = mark.entry
        kind: Kind = "activation" if entry.activation or mark.function else "output"
        if phase == "backward":
            kind = "output_gradient"
        return self.watching.watched(
            entry.tables,
            (kind, call, mark.slot, phase),
            mark.shaped(x),
            kind,
            entry.path,
            mark.slot,
            entry.network,
            call=call,
            type=mark.function or entry.type,
            op=mark.function,
            phase=phase,
            source=mark.source,
        )

    def look_in_python(self, x: torch.Tensor, key: str, index: int) -> None:
        """The same for a graph that runs as Python: the gradient is looked at by a hook on the tensor."""
        found = self._plans.get(key)
        if found is None or self.watching.foreign():
            return
        kind = _FORWARD if torch.is_grad_enabled() else _INFERENCE
        self._look(x, key, kind, [index])
        if found.looked and x.requires_grad and not x.is_leaf and kind == _FORWARD:
            marks = found.of(index)
            self.calls.hook(
                x, [self._watched(mark, self._call(found, mark, "forward"), x, "backward") for mark in marks]
            )

    # gaps

    def judge(self, *_: object) -> None:
        """After a pass: say which modules have shown nothing."""
        for found in self._plans.values():
            if found.judged or not found.looked:
                continue
            found.judged = True
            hidden = [
                mark
                for mark in found.marks
                if mark.node not in found.seen and id(mark.entry) not in self._shown and not mark.function
            ]
            for network in dict.fromkeys(mark.entry.network for mark in hidden):
                paths = list(
                    dict.fromkeys(mark.entry.path or network for mark in hidden if mark.entry.network == network)
                )
                rest = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
                self._gap(
                    f"outputs of {', '.join(paths[:_NAMED])}{rest} in compiled {network}",
                    "compiled code never keeps them in memory: they are fused with what follows",
                    "bad values show where they are next stored; run without compile to see each module",
                )

    def ended(self, model: Model) -> None:
        """A compiled model has returned."""
        if model.name not in self._captured and self.watching.deep:
            self._captured.add(model.name)
            self._gap(
                f"the inside of {model.name}",
                "it was compiled before Tensight was attached, so its code has no probes",
                "attach before its first call, or call torch._dynamo.reset() after attaching",
            )
        self.judge()

    def _refuse(self, found: Plan, reason: str) -> None:
        for network in dict.fromkeys(mark.entry.network for mark in found.marks):
            self._gap(
                f"the inside of {network}",
                f"torch.compile runs it outside Python, and {reason}",
                "its result, loss, gradients and weights are watched; run without compile to see its modules",
            )
        found.marks.clear()

    def _gap(self, what: str, reason: str, remedy: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self.watching.sink.gap(what, reason, remedy)


def look_in_graph(x: object, key: str, index: int) -> None:
    """Called by a graph that runs as Python."""
    compiled = _attached[0]() if _attached else None
    if compiled is not None and compiled.watching.deep and isinstance(x, torch.Tensor):
        try:
            compiled.look_in_python(x, key, index)
        except Exception as error:
            compiled.watching.failed("compiled code", error)


def _flags(config: Any) -> dict[str, Any]:
    names = ("cpp_wrapper", "freezing", "pre_grad_custom_pass", "joint_custom_pre_pass")
    return {name: getattr(config, name, None) for name in names}
