"""Level op in the running training: statistics of every operator's result go to the sink."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tensight.frameworks.source import user_source
from tensight.frameworks.tap import Made
from tensight.frameworks.torch import operators_tap, statistics
from tensight.frameworks.torch.measured import SAME_VALUES, SMALL, Measured
from tensight.frameworks.torch.operators import Call, Facts, outputs, written
from tensight.frameworks.torch.operators_beside import BesideCompiled, RunningScope
from tensight.frameworks.torch.operators_tap import Inputs
from tensight.frameworks.torch.statistics import CannotJudge
from tensight.frameworks.torch.watching import Watched, Watching, to_numpy
from tensight.records import Phase, Source, TensorInfo

NOT_SHOWN = frozenset({"aten.detach", "aten.alias", "aten.lift_fresh", "aten.detach_", "aten.empty", "aten.empty_like"})
_EMPTY = frozenset(  # what they make holds no values yet
    f"aten.{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
_HIDDEN = NOT_SHOWN | _EMPTY
_BLANK = frozenset(  # made to be filled by somebody, perhaps by a kernel that tells nobody
    f"aten.{new}{kind}" for kind in ("zeros", "ones", "full") for new in ("", "new_")
) | {"aten.zeros_like", "aten.ones_like", "aten.full_like"}
_SAME = frozenset({"aten.detach", "aten.alias", "aten.lift_fresh"})  # the same memory, as another object


class _Place:
    """An operator in a module and a phase, how often it has run there in this step, and what it makes each time."""

    __slots__ = ("blank", "made", "op", "round", "runs", "same_values")

    def __init__(self, op: str) -> None:
        self.op = op
        self.blank = op in _BLANK
        self.same_values = op in SAME_VALUES
        self.made: dict[tuple[int, int], Watched] = {}  # by the number of the run and the place in its result
        self.round = self.runs = -1

    def run(self, round: int) -> int:
        """How often it ran before; from now on, once more."""
        if self.round != round:
            self.round, self.runs = round, -1
        self.runs += 1
        return self.runs


class OperatorLevel:
    """Follows `sink.level`: observes operators while it is 'op'. Called between steps."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._sink = watching.sink
        self._mode: BesideCompiled | None = None
        self._places: dict[tuple[str, str, Phase], _Place] = {}
        self._round = 0  # counts steps
        self._lines: dict[int, Source | None] = {}  # by tensor id: where its forward operator was called
        self._made: list[Made] = []  # by the operator that ran last, while somebody takes operators
        self._measured = Measured()
        self._step = -1
        self._on = False
        self.compiled = 0  # compiled functions that run now: they show their operators by themselves

    @property
    def on(self) -> bool:
        """Whether operators of this step are shown."""
        return self._on

    def follow(self) -> None:
        """Begin or end, as the sink's level asks for."""
        wanted = self._sink.level == "op"
        if wanted and self._mode is None:
            self._mode = BesideCompiled(self, RunningScope(self._watching), self._sink.failed)
            self._mode.__enter__()
        self._on = wanted
        if wanted:
            self._watching.measured = self._measured
        if not wanted:
            self.stop()

    def stop(self) -> None:
        """Take it off. Inside a mode of the user's it can only fall silent, until it is asked again."""
        self._on = False
        self._watching.measured = None
        if self._mode is not None and _get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._mode = None

    # an observer of operators

    lines = False

    @property
    def hears(self) -> bool:
        watching = self._watching
        return self._on and watching.active and not watching.inside and not self.compiled

    @property
    def wants_calls(self) -> bool:
        tap = self._sink.tap
        return tap is not None and tap.operators

    def before(self, call: Call) -> Inputs | None:
        if self._sink.step != self._step:
            self._begin_step(call.phase, call)
        tap = self._sink.tap
        if tap is None or not tap.operators or call.ours or not self.hears or not _is_shown(call.name):
            return None
        return operators_tap.given(call, self._measured, tap.keeps)

    def _begin_step(self, phase: Phase, first: Call | None = None) -> None:
        self._step = self._sink.step
        self._round += 1
        self._measured.clear()
        if self._mode is not None and phase == "forward":
            self._mode.forget(first)

    def _place(self, module: str, op: str, phase: Phase) -> _Place:
        if self._sink.step != self._step:
            self._begin_step(phase)
        place = self._places.get((module, op, phase))
        if place is None:
            place = self._places[module, op, phase] = _Place(op)
        return place

    def number(self, module: str, op: str, phase: Phase) -> int:
        """How often this operator ran before in its module, phase and step; from now on, once more."""
        return self._place(module, op, phase).run(self._round)

    def raised(self, call: Call, given: Inputs | None, error: BaseException) -> None:
        """An operator failed; whoever takes operators may want what it was given."""
        tap = self._sink.tap
        if tap is not None and given is not None:
            place = self._place(call.module, call.name, call.phase)
            number = place.runs + 1 if place.round == self._round else 0
            why = f"{type(error).__name__}: {error}"
            operators_tap.tell(tap, call, number, given, (), why, self._line_of(call.forward))

    def after(self, call: Call, given: Inputs | None) -> None:
        if call.ours or not self.hears:
            return
        self._made.clear()
        call.kept = self.ran(call.facts, call.args, call.kwargs, call.result, call.phase, call.module, call.forward)
        tap = self._sink.tap
        if tap is not None and given is not None:
            number = self._place(call.module, call.name, call.phase).runs
            operators_tap.tell(tap, call, number, given, self._made, "", self._line_of(call.forward))
            self._made.clear()  # who holds a gradient makes the framework copy it
        call.args, call.kwargs = (), {}  # the call is kept for its backward; what it was given need not be

    def ran(
        self, known: Facts, args: tuple, kwargs: dict, result: Any, phase: Phase, module: str, forward: Call | None
    ) -> int | None:
        """An operator has run: read what it made, and answer the first of that."""
        name = known.name
        if name in _HIDDEN:
            if name in _SAME and type(result) is torch.Tensor and args:
                self._measured.pass_on(args[0], result)
            return None
        place = self._place(module, name, phase)
        number = place.run(self._round)
        changed: list[torch.Tensor] = []
        if known.mutable:
            changed = written(known, args, kwargs)
            self._measured.written(changed)
        first = None
        for index, tensor in enumerate(outputs(result, changed)):
            if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
                watched = place.made.get((number, index))
                if watched is None:
                    watched = self._describe(known, phase, module, forward, number, index, tensor)
                    place.made[number, index] = watched
                self._observe(place, watched, tensor, phase, args, any(tensor is one for one in changed))
                if first is None:
                    first = watched.id
        return first

    def _observe(
        self, place: _Place, watched: Watched, tensor: torch.Tensor, phase: Phase, args: tuple, is_written: bool
    ) -> None:
        sink, measured = self._sink, self._measured
        version = self._watching.needs_version
        if watched.version != version:
            watched.needs, watched.version = sink.needs(watched.info), version
        needs = watched.needs
        stats = measured.passed_on(place.op, args, needs) if place.same_values else None
        if stats is None:
            try:
                stats = statistics.one(tensor, needs)
            except CannotJudge as error:
                sink.unobserved(watched.id, error.code, phase)
                return
        # of what an optimizer writes somebody looks at the weights again, and at nothing else
        if stats.count >= SMALL and not place.blank and (phase != "update" or tensor.requires_grad):
            measured.add(tensor, needs, stats, written=is_written)
        shape = tensor.shape
        sink.observe(watched.id, stats, phase, None if shape == watched.shape else tuple(shape))
        if sink.keep_tensors and sink.wants(watched.id):
            sink.keep(watched.id, to_numpy(tensor, soon=sink.tap is not None))
        tap = sink.tap
        if tap is not None and tap.operators:
            self._made.append(Made(watched.info, stats, partial(to_numpy, tensor)))

    def _describe(
        self,
        known: Facts,
        phase: Phase,
        module: str,
        forward: Call | None,
        number: int,
        index: int,
        tensor: torch.Tensor,
    ) -> Watched:
        new = self._sink.new_id()
        line = self._lines[new] = self._line_of(forward) or user_source(2)
        info = TensorInfo(
            id=new,
            kind="operator_gradient" if phase == "backward" else "operator",
            node=module,
            slot=f"output.{index}",
            network=self._watching.network,
            call=number,
            shape=tuple(tensor.shape),
            dtype=statistics.dtype_name(tensor.dtype),
            device=str(tensor.device),
            type=forward.name if forward is not None else "",
            op=known.name,
            phase=phase,
            source=line,
            forward=_made_by(forward),
        )
        self._sink.tensor(info)
        return Watched(info, self._sink.needs(info), self._watching.needs_version)

    def _line_of(self, forward: Call | None) -> Source | None:
        """Where the forward operator of a backward one was called."""
        made_by = _made_by(forward)
        return self._lines.get(made_by) if made_by is not None else None


def _is_shown(name: str) -> bool:
    return name not in _HIDDEN


def _made_by(forward: Call | None) -> int | None:
    """What the forward operator of a backward one made first."""
    return forward.kept if forward is not None and isinstance(forward.kept, int) else None
