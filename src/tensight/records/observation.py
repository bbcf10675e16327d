"""A tensor that was seen, and what was seen of it."""

from __future__ import annotations

import msgspec

from tensight.records.shard import Shard
from tensight.records.source import Source
from tensight.records.statistics import Stats
from tensight.records.words import Kind, Phase


class TensorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which tensor is meant: said once, and referred to by `id` in every observation.

    `node` is the module's path ('' for the root); `slot` is the parameter's own name ('weight') or the place in a
    module's result ('output.0'); `call` counts the calls of a module inside a step. For operators `node` is the
    module they ran in and `op` their name ('aten.sqrt').
    """

    id: int
    kind: Kind
    node: str
    slot: str
    network: str = ""
    call: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    type: str = ""  # class of the module ('Linear'), or of the function for activations ('relu')
    op: str = ""
    phase: Phase = "forward"
    source: Source | None = None
    forward: int | None = None  # for operator gradients: id of the forward operator's tensor
    shard: Shard | None = None  # when a rank holds only a part; `shape` is that of the part

    @property
    def name(self) -> str:
        """'encoder.0.weight' for parameters and their gradients, 'encoder.0' or 'encoder.0#1' for the rest.

        >>> TensorInfo(id=0, kind="weight", node="head", slot="weight").name
        'head.weight'
        >>> TensorInfo(id=0, kind="output", node="head", slot="output.0", call=1).name
        'head#1'
        """
        if self.kind in ("weight", "frozen", "buffer", "gradient"):
            return f"{self.node}.{self.slot}" if self.node else self.slot
        return f"{self.node}#{self.call}" if self.call else self.node


class Observation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Statistics of one tensor at one moment. `order` counts inside the step, in order of execution."""

    tensor: int
    order: int
    stats: Stats
    phase: Phase = "forward"
    micro: int = 0
    shape: tuple[int, ...] | None = None  # only where it differs from the tensor's own
    error: str | None = None  # an ErrorCode when it could not be judged
