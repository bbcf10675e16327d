"""Level op inside compiled code: a probe for each value that compiled code keeps in memory, named by its operator.

Who made a value is written into the probe itself, since compiled code may come out of a cache
long after the graph that it was made of is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch.fx import Node

from tensight.frameworks.source import source_of
from tensight.frameworks.tap import Made, Ran
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.compiled_plan import line_of, value_of
from tensight.frameworks.torch.networks import Entry
from tensight.frameworks.torch.operators_level import OperatorLevel
from tensight.frameworks.torch.statistics import CannotJudge
from tensight.frameworks.torch.watching import Watching, to_numpy
from tensight.records import Phase, Source, TensorInfo


class Maker(NamedTuple):
    """The operator that makes a value: its name, its module and the line it comes from."""

    op: str
    network: str
    module: str
    source: Source | None

    @classmethod
    def read(cls, key: str) -> Maker:
        op, network, module, site = json.loads(key)
        return cls(op, network, module, source_of(*site) if site else None)


def key_of(node: Node, entry_of: Callable[[int], Entry | None]) -> str | None:
    """What a probe on the value of a node says of it; None where a node makes no tensor of floating point."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or value_of(node) is None:
        return None
    line = line_of(node)
    site = None if line is None else (line.file, line.line, line.function)
    entry = None
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or ()
    for scope in reversed(list(stack)):
        name = str(scope).partition("@")[0]
        entry = entry_of(int(name)) if name.isdigit() else None
        if entry is not None:
            break
    place = ("", "") if entry is None else (entry.network, entry.path)
    return json.dumps([f"{target.namespace}.{target._opname}", *place, site])


class CompiledOperators:
    """Tells the sink of operators that run inside compiled code, while its level is op."""

    def __init__(self, watching: Watching, level: OperatorLevel) -> None:
        self._watching = watching
        self._level = level
        self._makers: dict[str, Maker] = {}
        self._infos: dict[tuple[str, int, Phase], TensorInfo] = {}

    def look(self, x: torch.Tensor, key: str, phase: Phase) -> None:
        if not self._level.on or not x.numel() or not x.is_floating_point():
            return
        sink = self._watching.sink
        maker = self._makers.get(key)
        if maker is None:
            maker = self._makers[key] = Maker.read(key)
        number = self._level.number(maker.module, maker.op, phase)
        info = self._infos.get((key, number, phase))
        if info is None:
            info = self._infos[key, number, phase] = self._describe(maker, number, phase, x)
            sink.tensor(info)
        try:
            stats = statistics.one(x, sink.needs(info))
        except CannotJudge as error:
            sink.unobserved(info.id, error.code, phase)
            return
        sink.observe(info.id, stats, phase, None if x.shape == info.shape else tuple(x.shape))
        if sink.keep_tensors and sink.wants(info.id):
            sink.keep(info.id, to_numpy(x))
        tap = sink.tap
        if tap is not None and tap.operators:
            tap.ran(
                Ran(
                    module=maker.module,
                    op=maker.op,
                    phase=phase,
                    number=number,
                    given=(),
                    made=(Made(info, stats, partial(to_numpy, x)),),
                    source=lambda: maker.source,
                    stack=lambda: [maker.source] if maker.source is not None else [],
                    began=time.time_ns() // 1000,
                )
            )

    def _describe(self, maker: Maker, number: int, phase: Phase, x: torch.Tensor) -> TensorInfo:
        return TensorInfo(
            id=self._watching.sink.new_id(),
            kind="operator_gradient" if phase == "backward" else "operator",
            node=maker.module,
            slot="output.0",
            network=maker.network or self._watching.network,
            call=number,
            shape=tuple(x.shape),
            dtype=statistics.dtype_name(x.dtype),
            device=str(x.device),
            op=maker.op,
            phase=phase,
            source=maker.source,
        )
