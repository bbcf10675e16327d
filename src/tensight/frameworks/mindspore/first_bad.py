"""The first operator that turned finite values into NaN or Inf, in the forward or in the backward pass.

Forward: a tensor that is not finite carries the set of its origins, and only origins count that reached the loss; a NaN
that a relu or a max-pool has swallowed counts when nothing else does. Backward: MindSpore shows only some of its
operators, so the gradient of each forward operator's result is looked at instead. The guilty operator is the one whose
result got a finite gradient and whose input got a bad one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.facts import Fact, words
from tensight.frameworks.mindspore import operator_facts as facts
from tensight.frameworks.mindspore.operators import MOVES, Call
from tensight.frameworks.mindspore.values import dtype_name
from tensight.frameworks.rewinds import Seen
from tensight.records import Phase, Replay

_KEEP_NUMBERS = 1 << 20  # larger inputs are described, not kept
_RISKY = frozenset(
    """
    sqrt rsqrt log log2 log10 log1p xlogy pow div reciprocal norm cdist std var acos asin atanh acosh atan2 exp expm1
    softmax log_softmax logsumexp cosh sinh
    """.split()  # noqa: SIM905 - a list of quotes is harder to read
)
Name = Callable[[Tensor], str]


@dataclass(eq=False)
class Origin:
    """Where bad values came from. `kind`: 'made' from finite ones, 'meant' by the user, 'given' from outside."""

    kind: str
    call: Call
    nan: bool
    name: str = ""  # of a parameter or buffer that was bad before
    spoilt: Array | None = None
    given: int = 0
    reached: int = 0

    @property
    def hard(self) -> bool:
        """Bad by itself, not an infinity somebody asked for."""
        return self.kind == "made" or (self.kind == "given" and self.nan)


@dataclass(eq=False)
class Gradient:
    """What came back to the result of an operator."""

    address: int
    value: Array


@dataclass(eq=False)
class FirstBad:
    """Observes operators (see `operators.Observer`) of one step and finds where bad values begin."""

    name_of: Name
    fed: frozenset[int] = frozenset()  # addresses of what the step was given
    calls: list[Call] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    gradients: list[Gradient] = field(default_factory=list)
    _made: set[int] = field(default_factory=set)  # addresses of results that have no hook yet
    _bad: dict[int, frozenset[Origin]] = field(default_factory=dict)

    # while the step runs

    def given(self, tensors: list[Tensor]) -> None:
        """An operator is about to run: the gradients of what it is given are followed, once."""
        for tensor in tensors:
            address = tensor.data_ptr()
            if address in self._made:
                self._made.discard(address)
                self._hook(address, tensor)

    def seen(self, call: Call) -> None:
        """An operator has run. It is kept with its tensors, so that no address is used twice."""
        self.calls.append(call)
        self._made |= {tensor.data_ptr() for tensor in call.outputs}
        spoilt = [array for array in map(facts.array_of, call.outputs) if not facts.finite(array)]
        if not spoilt:
            return
        sources = self._sources(call)
        nan = any(facts.has_nan(array) for array in spoilt)
        meant = any(facts.infinite_argument(value) for value in call.scalars.values())
        if not sources:
            sources = {self._add("meant" if meant else "made", call, nan, spoilt[0])}
        elif nan and not any(origin.hard for origin in sources) and call.name not in MOVES:
            sources = {self._add("made", call, nan, spoilt[0]), *sources}
        for origin in sources:
            origin.reached += 1
        for tensor in call.outputs:
            if not facts.finite(facts.array_of(tensor)):
                self._bad[tensor.data_ptr()] = frozenset(sources)

    def _hook(self, address: int, tensor: Tensor) -> None:
        if not str(tensor.dtype).lower().startswith(("float", "bfloat")) or isinstance(tensor, Parameter):
            return

        def came(gradient: Any) -> None:
            value = facts.array_of(gradient)
            if value is not None:
                self.gradients.append(Gradient(address, value.copy()))

        try:
            tensor.register_hook(came)
        except (RuntimeError, TypeError, ValueError):
            return  # a tensor that no gradient will come to

    def _sources(self, call: Call) -> set[Origin]:
        sources: set[Origin] = set()
        for index, tensor in enumerate(call.inputs):
            array = facts.array_of(tensor)
            if facts.finite(array):
                continue
            known = self._bad.get(tensor.data_ptr())
            if known is None:
                known = self._unseen(tensor)
            if known is None:
                origin = self._add("given", call, facts.has_nan(array), array)
                origin.name, origin.given = self.name_of(tensor), index
                known = self._bad[tensor.data_ptr()] = frozenset({origin})
            elif call.name not in MOVES:
                for origin in known:
                    if origin.kind == "given" and origin.call.name in MOVES:
                        origin.call, origin.given = call, index  # the first that computes with them says more
            sources |= known
        return sources

    def _unseen(self, tensor: Tensor) -> frozenset[Origin] | None:
        """Origins of a bad tensor that an operator has made which the dispatch does not show, after others went bad."""
        hard = frozenset(origin for origin in self.origins if origin.hard)
        if not hard or tensor.data_ptr() in self.fed or isinstance(tensor, Parameter) or self.name_of(tensor):
            return None
        self._bad[tensor.data_ptr()] = hard
        return hard

    def _add(self, kind: str, call: Call, nan: bool, spoilt: Array | None) -> Origin:
        origin = Origin(kind, call, nan, spoilt=None if spoilt is None else spoilt.copy())
        self.origins.append(origin)
        return origin

    # when it is over

    def found(self, loss: Tensor | None, parameters: list[tuple[Tensor, Array | None]]) -> Seen | None:
        """Where bad values came from; `parameters` come with their gradients of this step."""
        reached: set[Origin] = set()
        if loss is not None and not facts.finite(facts.array_of(loss)):
            reached |= self._bad.get(loss.data_ptr(), frozenset())
        hard = [origin for origin in reached if origin.hard] or list(reached)
        if not hard:
            hard = [origin for origin in self.origins if origin.hard and origin.nan]
        if hard:
            return self._forward(min(hard, key=lambda origin: origin.call.order))
        return self._backward(parameters)

    def _forward(self, origin: Origin) -> Seen:
        about: dict[str, Fact] = {
            "kind": origin.kind,
            "name": origin.name,
            "spoilt_operators": origin.reached,
        }
        spoilt = origin.spoilt
        if spoilt is not None:
            about |= facts.bad_facts(spoilt)
        if origin.kind == "given":
            about["given"] = origin.given
            array = facts.array_of(origin.call.inputs[origin.given])
            if array is not None:
                about |= facts.bad_facts(array)
                about["first_bad"] = ",".join(map(str, np.argwhere(~np.isfinite(array))[0])) if array.ndim else "0"
        dtypes = [dtype_name(tensor) for tensor in origin.call.outputs]
        about["dtype"] = dtypes[0] if dtypes else ""
        return self._seen(origin.call, "forward", about)

    def _backward(self, parameters: list[tuple[Tensor, Array | None]]) -> Seen | None:
        came: dict[int, Gradient] = {}
        for gradient in self.gradients:
            came.setdefault(gradient.address, gradient)
        results = [gradient for gradient in self.gradients if not facts.finite(gradient.value)]
        places: list[tuple[int, Array | None]] = [(gradient.address, gradient.value) for gradient in results]
        places += [(tensor.data_ptr(), value) for tensor, value in parameters if not facts.finite(value)]
        for address, value in places:
            if value is None:
                continue
            guilty = [
                call
                for call in self.calls
                if any(tensor.data_ptr() == address for tensor in call.inputs)
                and all(
                    facts.finite(came[tensor.data_ptr()].value) for tensor in call.outputs if tensor.data_ptr() in came
                )
            ]
            if guilty:
                call = max(guilty, key=lambda one: (one.name in _RISKY, one.order))
                return self._in_backward(call, value, came)
        return None

    def _in_backward(self, call: Call, value: Array, came: dict[int, Gradient]) -> Seen:
        about: dict[str, Fact] = {"kind": "made", "name": "", **facts.bad_facts(value)}
        about["dtype"] = dtype_name(call.outputs[0]) if call.outputs else ""
        incoming = next((came[t.data_ptr()].value for t in call.outputs if t.data_ptr() in came), None)
        if incoming is not None and incoming.shape == value.shape:
            about["incoming_zero_at_bad"] = int((incoming[~np.isfinite(value)] == 0).sum())
        return self._seen(call, "backward", about)

    def _seen(self, call: Call, phase: Phase, about: dict[str, Fact]) -> Seen:
        values: dict[str, Array] = {}
        said: list[str] = []
        for index, tensor in enumerate(call.inputs):
            array = facts.array_of(tensor)
            if array is None:
                continue
            described = facts.numbers(array, dtype_name(tensor))
            said.append(words(described))
            about |= {f"in.{index}.{key}": fact for key, fact in described.items()}
            if array.size <= _KEEP_NUMBERS:
                values[f"input.{index}"] = array.copy()
            if "softmax" in call.name and index == 0:
                axis = call.scalars.get("arg.1")
                about["masked_rows"] = facts.masked_rows(array, axis if isinstance(axis, int) else -1)
        for key, value in call.scalars.items():
            about.setdefault(key, int(value) if isinstance(value, bool) else value)
        replay = Replay(
            step=0,
            status="exact",
            operator=f"ops.{call.name}",
            module=call.module,
            phase=phase,
            source=call.source,
            inputs=tuple(said),
            facts=about,
        )
        return Seen(replay, values)
