"""What else was seen in a step: the few relations between tensors that judgements ask for, worked out on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from tensight.records import Kind, Observation, Stats, TensorInfo

Key = tuple[str, str, str, Kind]
_PARTNERS: dict[Kind, Kind] = {"gradient": "weight", "weight": "gradient"}
STORED: frozenset[Kind] = frozenset({"weight", "frozen", "buffer"})
"""Kinds that outlive a step: bad values in them were there before the step began."""


class Surroundings:
    """One step of one rank, as judgements may look at it."""

    def __init__(
        self,
        step: int,
        observations: Sequence[Observation],
        tensors: Mapping[int, TensorInfo],
        *,
        updates: int = 0,
        scaler_skipped: bool = False,
    ) -> None:
        self.step = step
        self.observations = observations
        self.tensors = tensors
        self.updates = updates
        self.scaler_skipped = scaler_skipped

    @cached_property
    def parameters(self) -> dict[Key, Stats]:
        """Statistics of the weights and gradients of this step, by network, module, name and kind."""
        found: dict[Key, Stats] = {}
        for observation in self.observations:
            info = self.tensors.get(observation.tensor)
            if info is not None and info.kind in _PARTNERS and observation.error is None:
                found[info.network, info.node, info.slot, info.kind] = observation.stats
        return found

    def partner(self, info: TensorInfo) -> Stats | None:
        """For a gradient its weight, for a weight its gradient."""
        other = _PARTNERS.get(info.kind)
        return None if other is None else self.parameters.get((info.network, info.node, info.slot, other))

    def sibling_gradients(self, info: TensorInfo) -> list[Stats]:
        """Gradients of the other parameters of the same module."""
        return [
            stats
            for (network, node, slot, kind), stats in self.parameters.items()
            if kind == "gradient" and (network, node) == (info.network, info.node) and slot != info.slot
        ]

    @cached_property
    def largest_gradient(self) -> float:
        """The largest mean of absolute values among the gradients of this step."""
        sizes = [
            stats.abs_mean for (*_, kind), stats in self.parameters.items() if kind == "gradient" and stats.abs_mean
        ]
        return max(sizes, default=0.0)

    @cached_property
    def first_bad(self) -> int | None:
        """The place in the order of execution of the first NaN or Inf that does not come from a mask."""
        orders = [
            observation.order
            for observation in self.observations
            if observation.stats.bad
            and (info := self.tensors.get(observation.tensor)) is not None
            and info.kind not in STORED
            and not is_mask(info, observation.stats)
        ]
        return min(orders, default=None)

    @cached_property
    def module_inputs(self) -> dict[tuple[str, str, int], bool]:
        """For each call of a module whose inputs were observed: whether all of them were finite."""
        finite: dict[tuple[str, str, int], bool] = {}
        for observation in self.observations:
            info = self.tensors.get(observation.tensor)
            if info is not None and info.kind == "module_input":
                call = (info.network, info.node, info.call)
                finite[call] = finite.get(call, True) and not observation.stats.bad
        return finite

    def is_origin(self, observation: Observation, info: TensorInfo) -> bool:
        """Whether what went into the operator that made this tensor was finite, as far as the step shows it.

        Weights are left to the checker, which remembers them from step to step.
        """
        if info.kind in ("output", "activation"):
            known = self.module_inputs.get((info.network, info.node, info.call))
            if known is not None:
                return known
        return self.first_bad is None or observation.order <= self.first_bad


_MASK_WORDS = ("mask", "attn", "attention")
_MASK_OPERATORS = ("masked_fill", "maskedfill", "where", "triu", "tril", "full", "select")
_GIVEN: frozenset[Kind] = frozenset({"buffer", "frozen", "input", "module_input"})


def is_mask(info: TensorInfo, stats: Stats) -> bool:
    """Whether -Inf in this tensor is what an attention mask looks like: no NaN, no +Inf, and a place for masks.

    >>> is_mask(TensorInfo(id=0, kind="buffer", node="attn", slot="causal"), Stats(count=4, neg_inf=2))
    True
    >>> is_mask(TensorInfo(id=0, kind="operator", node="head", slot="", op="aten.log"), Stats(count=4, neg_inf=2))
    False
    """
    if stats.nan or stats.pos_inf or not stats.neg_inf:
        return False
    if info.kind in _GIVEN:
        return True
    op = info.op.lower()
    if any(word in op for word in _MASK_OPERATORS):
        return True
    place = f"{info.node}.{info.slot}.{info.type}".lower()
    return any(word in place for word in _MASK_WORDS) and "log" not in op
