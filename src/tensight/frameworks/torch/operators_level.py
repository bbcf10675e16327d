"""Level op in the running training: statistics of every operator's result go to the sink."""

from __future__ import annotations

from functools import partial

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tensight.frameworks.tap import Made
from tensight.frameworks.torch import operators_tap, statistics
from tensight.frameworks.torch.measured import Measured
from tensight.frameworks.torch.operators import Call
from tensight.frameworks.torch.operators_beside import BesideCompiled, RunningScope
from tensight.frameworks.torch.operators_tap import Inputs
from tensight.frameworks.torch.statistics import CannotJudge
from tensight.frameworks.torch.watching import Watching, to_numpy
from tensight.records import Phase, Source, TensorInfo

NOT_SHOWN = frozenset({"aten.detach", "aten.alias", "aten.lift_fresh", "aten.detach_", "aten.empty", "aten.empty_like"})
_EMPTY = frozenset(  # what they make holds no values yet
    f"aten.{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
_BLANK = frozenset(  # made to be filled by somebody, perhaps by a kernel that tells nobody
    f"aten.{new}{kind}" for kind in ("zeros", "ones", "full") for new in ("", "new_")
) | {"aten.zeros_like", "aten.ones_like", "aten.full_like"}
_Key = tuple[str, str, Phase, int, int]


class OperatorLevel:
    """Follows `sink.level`: observes operators while it is 'op'. Called between steps."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._sink = watching.sink
        self._mode: BesideCompiled | None = None
        self._infos: dict[_Key, TensorInfo] = {}
        self._counts: dict[tuple[str, str, Phase], int] = {}
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

    def before(self, call: Call) -> Inputs | None:
        if self._sink.step != self._step:
            self._begin_step(call.phase)
        tap = self._sink.tap
        if tap is None or not tap.operators or not self._shown(call):
            return None
        return operators_tap.given(call, self._measured, tap.keeps)

    def _begin_step(self, phase: Phase) -> None:
        self._step = self._sink.step
        self._counts.clear()
        self._measured.clear()
        if self._mode is not None and phase == "forward":
            self._mode.forget()

    def number(self, module: str, op: str, phase: Phase) -> int:
        """How often this operator ran before in its module, phase and step; from now on, once more."""
        if self._sink.step != self._step:
            self._begin_step(phase)
        place = (module, op, phase)
        number = self._counts.get(place, 0)
        self._counts[place] = number + 1
        return number

    def raised(self, call: Call, given: Inputs | None, error: BaseException) -> None:
        """An operator failed; whoever takes operators may want what it was given."""
        tap = self._sink.tap
        if tap is not None and given is not None:
            number = self._counts.get((call.module, call.name, call.phase), 0)
            why = f"{type(error).__name__}: {error}"
            operators_tap.tell(tap, call, number, given, (), why, self._forward_line(call))

    def after(self, call: Call, given: Inputs | None) -> None:
        if not self._on or not self._shown(call):
            return
        facts = call.facts
        written: frozenset[int] = frozenset()
        if facts.mutable:
            changed = call.written()
            self._measured.written(changed)
            written = frozenset(map(id, changed))
        place = (call.module, facts.name, call.phase)
        number = self.number(*place)
        first: int | None = None
        self._made.clear()
        for index, tensor in enumerate(call.outputs()):
            if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
                made = self._observe(call, (*place, number, index), tensor, id(tensor) in written)
                first = made if first is None else first
        call.kept = first
        tap = self._sink.tap
        if tap is not None and given is not None:
            operators_tap.tell(tap, call, number, given, self._made, "", self._forward_line(call))
            self._made.clear()  # who holds a gradient makes the framework copy it
        call.args, call.kwargs = (), {}  # the call is kept for its backward; what it was given need not be

    def _shown(self, call: Call) -> bool:
        watching = self._watching
        if not watching.active or watching.inside or call.ours or self.compiled:
            return False
        name = call.facts.name
        if name in _EMPTY:
            return False
        if name not in NOT_SHOWN:
            return True
        if type(call.result) is torch.Tensor and call.args:
            self._measured.pass_on(call.args[0], call.result)
        return False

    def _observe(self, call: Call, key: _Key, tensor: torch.Tensor, written: bool) -> int:
        info = self._infos.get(key)
        sink, measured = self._sink, self._measured
        if info is None:
            info = self._infos[key] = self._describe(call, key, tensor)
            sink.tensor(info)
        needs = sink.needs(info)
        stats = measured.passed_on(key[1], call.args, needs)
        if stats is None:
            try:
                stats = statistics.one(tensor, needs)
            except CannotJudge as error:
                sink.unobserved(info.id, error.code, call.phase)
                return info.id
        # of what an optimizer writes somebody looks at the weights again, and at nothing else
        if key[1] not in _BLANK and (call.phase != "update" or tensor.requires_grad):
            measured.add(tensor, needs, stats, written=written)
        shape = tensor.shape
        sink.observe(info.id, stats, call.phase, None if shape == info.shape else tuple(shape))
        if sink.keep_tensors and sink.wants(info.id):
            sink.keep(info.id, to_numpy(tensor, soon=sink.tap is not None))
        tap = sink.tap
        if tap is not None and tap.operators:
            self._made.append(Made(info, stats, partial(to_numpy, tensor)))
        return info.id

    def _describe(self, call: Call, key: _Key, tensor: torch.Tensor) -> TensorInfo:
        forward, made_by = call.forward, _made_by(call)
        new = self._sink.new_id()
        line = self._lines[new] = self._forward_line(call) or call.line()
        return TensorInfo(
            id=new,
            kind="operator_gradient" if call.phase == "backward" else "operator",
            node=call.module,
            slot=f"output.{key[4]}",
            network=self._watching.network,
            call=key[3],
            shape=tuple(tensor.shape),
            dtype=statistics.dtype_name(tensor.dtype),
            device=str(tensor.device),
            type=forward.name if forward is not None else "",
            op=call.name,
            phase=call.phase,
            source=line,
            forward=made_by,
        )

    def _forward_line(self, call: Call) -> Source | None:
        """Where the forward operator of a backward one was called."""
        made_by = _made_by(call)
        return self._lines.get(made_by) if made_by is not None else None


def _made_by(call: Call) -> int | None:
    """What the forward operator of a backward one made first."""
    forward = call.forward
    return forward.kept if forward is not None and isinstance(forward.kept, int) else None
