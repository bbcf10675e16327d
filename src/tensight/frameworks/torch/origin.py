"""The first operator that turned finite values into NaN or Inf, and what it spoilt.

Every bad value is followed from where it appeared: a tensor that is not finite carries the set of its origins. At the
end of a step only origins count whose values reached a loss, a gradient of a parameter or a weight. So infinities that
softmax removes, branches that `torch.where` drops and values that are overwritten are no trouble.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tensight.frameworks.facts import Fact, words
from tensight.frameworks.torch import origin_facts as facts
from tensight.frameworks.torch.operators import Call, tensors
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.origin_terms import Terms
from tensight.frameworks.torch.replay_samples import Samples, of_rows
from tensight.frameworks.torch.shards import local
from tensight.records import Source

_RAW = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted", "resize_")
# These write without reading what was there.
_OVERWRITES = ("fill_", "zero_", "copy_", "normal_", "uniform_", "exponential_", "random_", "bernoulli_", "set_")
_ASSIGNS = ("fill_", "copy_", "index_put_", "masked_fill_", "index_copy_", "set_")
# Values are carried by these, not computed.
_MOVES = frozenset(
    {
        "detach",
        "lift_fresh",
        "lift",
        "alias",
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
        "slice",
        "select",
        "index",
        "index_select",
        "gather",
        "t",
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "split",
        "split_with_sizes",
        "unbind",
        "chunk",
        "cat",
        "stack",
        "clone",
        "_to_copy",
        "copy_",
        "as_strided",
        "contiguous",
        "unfold",
        "masked_select",
        "flip",
        "roll",
        "narrow",
        "_reshape_alias",
        "expand_as",
        "view_as",
        "detach_",
        "lift_fresh_copy",
        "repeat",
        "movedim",
        "diagonal",
        "embedding",
    }
)
# What adds numbers up, and so may go beyond what a format holds where each of them just fitted.
_ADDS = frozenset({"sum", "add", "add_", "cumsum"})
_NEAR_END = 1e-6  # of the largest number: from here on an exponential is what the sum is too large by
_KEEP_NUMBERS = 1 << 22  # larger inputs of forward operators are not held for the backward
_KEEP_IN_ALL = 1 << 26  # nor more than so many in one step


@dataclass(eq=False)
class Origin:
    """Where bad values came from. `kind`: 'made' from finite ones, 'meant' by the user, 'given' from outside."""

    order: int
    step: int
    kind: str
    call: Call
    nan: bool
    name: str = ""  # of a parameter or buffer that was bad before
    facts: dict[str, Fact] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    values: dict[str, torch.Tensor] = field(default_factory=dict)  # real inputs, for a reproduction
    reached: int = 0  # operators that it spoilt afterwards

    @property
    def hard(self) -> bool:
        """Bad by itself, not an infinity somebody asked for."""
        return self.kind == "made" or (self.kind == "given" and self.nan)


class FirstBad:
    """Observes operators (see `operators.Observer`) and finds the origin of bad values."""

    lines = True

    def __init__(self, scope: Scope, samples: Samples | None = None) -> None:
        self.origins: list[Origin] = []
        self._samples = samples
        self._terms = Terms()
        self._held = 0  # numbers that are held for the backward
        self.step = 0
        self._scope = scope
        # Storage → (it, so that its address is not used again; what made it bad).
        self._bad: dict[int, tuple[Any, frozenset[Origin]]] = {}
        self._raw: dict[int, Any] = {}
        self._assignments: dict[int, Call] = {}  # storages that were given NaN by a line of the script
        self._exponentials: dict[int, tuple[Any, Call]] = {}  # storage → (it, the exp that filled it)

    # while the step runs

    def before(self, call: Call) -> list[torch.Tensor]:
        inputs = call.inputs()
        if call.mutable:
            written = {id(tensor) for tensor in call.written()}
            base = call.name.rpartition(".")[2]
            if base in _OVERWRITES:
                inputs = [tensor for tensor in inputs if id(tensor) not in written]
            else:
                inputs = [tensor.clone() if id(tensor) in written else tensor for tensor in inputs]
                for clone, original in zip(inputs, call.inputs()):
                    if clone is not original:
                        self._share(original, clone)
        size = sum(tensor.numel() for tensor in inputs)
        if call.phase == "forward" and size <= _KEEP_NUMBERS and self._held + size <= _KEEP_IN_ALL:
            self._held += size
            call.kept = [(tensor, _version(tensor)) for tensor in inputs]
        return inputs

    def after(self, call: Call, inputs: list[torch.Tensor]) -> None:
        base = call.name.rpartition(".")[2]
        outputs = call.outputs()
        if base in _RAW:
            for tensor in outputs:
                self._raw[_key(tensor)] = tensor.untyped_storage()
            return
        if call.phase == "forward" and not call.ours:
            self._terms.seen(call)
            if base == "exp" and call.kept is not None:
                self._exponentials.update((_key(tensor), (tensor.untyped_storage(), call)) for tensor in outputs)
        spoilt = [tensor for tensor in outputs if not facts.finite(tensor)]
        if call.mutable:
            for tensor in call.written():
                self._raw.pop(_key(tensor), None)
                if _whole(tensor) and not any(tensor is other for other in spoilt):
                    self._bad.pop(_key(tensor), None)
        if not spoilt:
            return
        sources = self._sources(call, inputs)
        if sources is None:
            return
        if base not in _MOVES:
            for origin in sources:
                if origin.kind == "given" and origin.call.name.rpartition(".")[2] in _MOVES:
                    self._met(origin, call, inputs)
        nan = any(facts.has_nan(tensor) for tensor in spoilt)
        if nan and base in _ASSIGNS and call.phase != "update":
            self._assignments.update((_key(tensor), call) for tensor in call.written())
        if not sources:
            meant = any(facts.infinite_argument(value) for value in (*call.args, *call.kwargs.values()))
            exp = self._added_up(call, inputs) if not meant and not nan else None
            if exp is not None:
                origin = self._add("made", exp, exp.inputs(), spoilt, nan)
                origin.facts["added_in"] = base
                sources = {origin}
            else:
                sources = {self._add("meant" if meant else "made", call, inputs, spoilt, nan)}
        elif nan and not any(origin.hard for origin in sources) and base not in _MOVES:
            sources = {self._add("made", call, inputs, spoilt, nan), *sources}
        for origin in sources:
            origin.reached += 1
        for tensor in spoilt:
            self._mark(tensor, sources)

    def _added_up(self, call: Call, inputs: list[torch.Tensor]) -> Call | None:
        """The exp whose results just fit into their format, but not their sum: it is what overflows."""
        if call.phase != "forward" or call.name.rpartition(".")[2] not in _ADDS:
            return None
        for tensor in inputs:
            exp = self._exponentials.get(_key(tensor), (None, None))[1]
            if exp is None or not facts.is_float(tensor) or tensor.numel() == 0:
                continue
            kept = [version == _version(given) for given, version in exp.kept or ()]
            if all(kept) and float(tensor.detach().max()) > _NEAR_END * torch.finfo(tensor.dtype).max:
                return exp
        return None

    def _sources(self, call: Call, inputs: list[torch.Tensor]) -> set[Origin] | None:
        """Where the bad values among the inputs came from; None when they are uninitialised memory."""
        sources: set[Origin] = set()
        raw = False
        for index, tensor in enumerate(inputs):
            known = self._bad.get(_key(tensor))
            if facts.finite(tensor):
                continue
            if known is not None:
                sources |= known[1]
            elif _key(tensor) in self._raw:
                raw = True
            else:
                origin = self._add("given", call, inputs, [tensor], facts.has_nan(tensor))
                origin.name = self._name(tensor)
                origin.facts["given"] = index
                self._mark(tensor, {origin})
                sources.add(origin)
        return None if raw and not sources else sources

    def _met(self, origin: Origin, call: Call, inputs: list[torch.Tensor]) -> None:
        """Bad values from outside were only carried so far: the first operator that computes with them says more."""
        if "assigned" in origin.facts:
            return
        for index, tensor in enumerate(inputs):
            if origin in self._bad.get(_key(tensor), (None, frozenset()))[1] and not facts.finite(tensor):
                assignment = self._assignments.get(_key(tensor))
                weight = self._name(tensor) if assignment is not None else ""
                if assignment is not None and weight in self._scope.parameters():
                    # the line that put them into a weight says more than the operator that meets them there
                    origin.name, origin.call, origin.facts["assigned"] = weight, assignment, 1
                    return
                fuller = self._describe("given", call, inputs, [tensor], origin.nan)
                origin.call, origin.facts, origin.inputs = call, fuller.facts, fuller.inputs
                origin.values = fuller.values
                origin.facts["given"] = index
                return

    def _add(self, kind: str, call: Call, inputs: list, spoilt: list, nan: bool) -> Origin:
        origin = self._describe(kind, call, inputs, spoilt, nan)
        self.origins.append(origin)
        return origin

    def _describe(self, kind: str, call: Call, inputs: list, spoilt: list, nan: bool) -> Origin:
        origin = Origin(len(self.origins), self.step, kind, call, nan)
        if kind == "meant":
            return origin
        origin.facts.update(facts.bad_facts(spoilt[0]))
        rows, of, first = facts.rows_with(facts.bad(spoilt[0]))
        samples = of_rows(self._samples.at_hand(), first, of) if rows and self._samples is not None else ""
        if samples:
            origin.facts["samples"] = samples
        if kind == "given":
            where = facts.bad(spoilt[0]).nonzero()[0].tolist()
            origin.facts["first_bad"] = ",".join(map(str, where))
        origin.facts["dtype"] = facts.name_of(spoilt[0].dtype)
        shown = inputs
        forward = call.forward
        if call.phase == "backward":
            origin.facts["backward_operator"] = call.name
            origin.facts["node"] = call.node
            _gradient_facts(origin, call, inputs, spoilt[0])
            kept = forward.kept if forward is not None and forward.kept is not None else []
            shown = [tensor for tensor, version in kept if _version(tensor) == version]
            for index, tensor in enumerate(tensor for tensor in inputs if facts.is_float(tensor)):
                origin.values[f"backward.{index}"] = tensor.detach().clone()
        described = []
        for index, tensor in enumerate(shown):
            found = facts.numbers(tensor)
            described.append(words(found))
            origin.facts.update({f"in.{index}.{key}": value for key, value in found.items()})
            if tensor.numel() <= _KEEP_NUMBERS:
                origin.values[f"input.{index}"] = tensor.detach().clone()
        origin.inputs = tuple(described)
        about = forward if forward is not None and call.phase == "backward" else call
        origin.facts.update(facts.scalars(about.args, about.kwargs))
        _special(origin, about.name, about.args, shown)
        return origin

    # when the step is over

    def found(self, *, final: bool = True) -> Origin | None:
        """The origin of what reached losses and weights; when `final` also of bad gradients, and of any NaN made.

        Bad gradients alone are no trouble in the steps before: a loss scaler leaves such an update out.
        """
        reached: set[Origin] = set()
        for tensor in self._sinks(gradients=final):
            if not facts.finite(tensor):
                reached |= self._bad.get(_key(tensor), (None, frozenset()))[1]
        hard = [origin for origin in reached if origin.hard] or list(reached)
        if not hard:
            hard = [origin for origin in self._answered() if origin.hard]
        if not hard and final:
            hard = [origin for origin in self.origins if origin.kind == "made" and origin.nan and not origin.call.ours]
        return min(hard, key=lambda origin: origin.order, default=None)

    def _answered(self) -> set[Origin]:
        """Where the NaN in the answers of a step came from that only infers: there the answers are what counts."""
        if self._scope.losses or any(one.grad is not None for one in self._scope.parameters().values()):
            return set()
        answers = [answer for answer in self._scope.answers if facts.has_nan(answer)]
        return {origin for answer in answers for origin in self._bad.get(_key(answer), (None, frozenset()))[1]}

    def summand(self) -> str:
        """Which summand of the loss is bad; '' when it is no sum, or all of it is."""
        for loss in self._scope.losses:
            if not facts.finite(loss):
                return self._terms.bad_summand(loss)
        return ""

    def spoilt(self) -> tuple[str, ...]:
        """What is bad at the end, in the order in which it went bad."""
        then = []
        if any(not facts.finite(loss) for loss in self._scope.losses):
            then.append("the loss")
        parameters = self._scope.parameters()
        gradients = [name for name, p in parameters.items() if p.grad is not None and not facts.finite(p.grad)]
        weights = [name for name, parameter in parameters.items() if not facts.finite(parameter)]
        if gradients:
            more = len(gradients) - 1
            then.append(f"gradient of {gradients[0]}")
            if more:
                then.append(f"{more} more gradient{'s' if more > 1 else ''}")
        if weights:
            everything = len(weights) == len(parameters) and len(weights) > 1
            then.append("every weight" if everything else ", ".join(weights[:3]) + (" …" if len(weights) > 3 else ""))
        return tuple(then)

    def step_over(self, step: int) -> None:
        """Forget the losses of a step that went well; weights stay followed."""
        self._scope.losses.clear()
        self._scope.answers.clear()
        self._raw.clear()
        self._exponentials.clear()
        self._terms.clear()
        self._held = 0
        self.step = step

    def _sinks(self, *, gradients: bool) -> list[torch.Tensor]:
        parameters = list(self._scope.parameters().values())
        found = [*self._scope.losses, *parameters]
        if gradients:
            found += [parameter.grad for parameter in parameters if parameter.grad is not None]
        return found

    def _name(self, tensor: torch.Tensor) -> str:
        key = _key(tensor)
        for name, parameter in (*self._scope.parameters().items(), *self._scope.buffers().items()):
            if _key(parameter) == key:
                return name
        return ""

    def _mark(self, tensor: torch.Tensor, sources: set[Origin]) -> None:
        key = _key(tensor)
        before = self._bad.get(key, (None, frozenset()))[1]
        self._bad[key] = (tensor.untyped_storage(), frozenset(sources) | before)

    def _share(self, original: torch.Tensor, clone: torch.Tensor) -> None:
        known = self._bad.get(_key(original))
        if known is not None:
            self._bad[_key(clone)] = (clone.untyped_storage(), known[1])
        elif _key(original) in self._raw:
            self._raw[_key(clone)] = clone.untyped_storage()


def _key(tensor: torch.Tensor) -> int:
    try:
        return local(tensor).untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and wrapped tensors have no storage of their own
        return id(tensor)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _whole(tensor: torch.Tensor) -> bool:
    try:
        return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return True


def _gradient_facts(origin: Origin, call: Call, inputs: list[torch.Tensor], spoilt: torch.Tensor) -> None:
    """Whether the bad gradients stand where nothing was to flow: the mark of a branch that forward dropped."""
    mask = facts.bad(spoilt)
    for tensor in inputs:
        if tensor.shape == spoilt.shape and facts.is_float(tensor):
            origin.facts["incoming_zero_at_bad"] = int((facts.plain(tensor)[mask] == 0).sum())
            break


def _special(origin: Origin, name: str, args: tuple, inputs: list[torch.Tensor]) -> None:
    if "softmax" in name and inputs and len(args) > 1 and isinstance(args[1], int):
        origin.facts["masked_rows"] = facts.masked_rows(inputs[0], args[1])
    if "scaled_dot_product" in name:
        for value in (*args[3:], *origin.call.kwargs.values()):
            for mask in tensors(value):
                if mask.dtype is torch.bool:
                    origin.facts["masked_rows"] = int((~mask).all(dim=-1).sum())
                elif mask.is_floating_point():
                    origin.facts["masked_rows"] = facts.masked_rows(mask, -1)


def source_of(origin: Origin) -> Source | None:
    """The user's line: of the forward operator when the value went bad in its backward."""
    call = origin.call
    return call.forward.source if call.forward is not None and call.forward.site is not None else call.source
