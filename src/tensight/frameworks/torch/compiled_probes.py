"""Probes: calls from compiled code that look at values which it holds in memory anyway.

A probe never makes inductor compute or store anything in another way: probes are added when all of that is decided,
to those buffers that exist. Values that were fused away inside a kernel have none and are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import dependencies, ir
from torch._inductor.virtualized import V
from torch.fx import Node

from tensight.frameworks.torch import compiled_switch
from tensight.frameworks.torch.compiled_marks import BACKWARD, FORWARD, INFERENCE, META, PROBE

_SWITCH = "tensight_deep"
_aten = torch.ops.aten
_SAME_VALUES = frozenset(
    getattr(_aten, packet)
    for packet in ("view", "_unsafe_view", "reshape", "permute", "t", "transpose", "unsqueeze", "squeeze", "alias")
)


class Probe(ir.FallbackKernel):
    """A call of the probe operator: kept though nobody uses its result, and in order with the other probes."""

    previous: Probe | None = None

    def get_read_writes(self) -> Any:
        found = super().get_read_writes()
        if self.previous is not None:
            found.reads.add(dependencies.StarDep(self.previous.get_name()))
        return found

    def has_side_effects(self) -> bool:
        return True

    def get_kernel_name(self) -> str:
        """With its condition: a call of an operator costs microseconds, and most short steps are not looked at."""
        return f"{_SWITCH} and {super().get_kernel_name()}"

    def codegen(self, wrapper: Any) -> None:
        wrapper.add_import_once(f"from {compiled_switch.__name__} import DEEP as {_SWITCH}")
        super().codegen(wrapper)


def add(graph: Any, key_of: Callable[[Node], str | None] | None = None) -> tuple[int, int]:
    """Put probes on the buffers of a lowered graph that hold marked values. Answers (probed, fused away).

    `key_of` is asked what a probe says of an operator, where every operator is to be shown.
    """
    wanted = FORWARD if not graph.is_backward else BACKWARD
    kind = INFERENCE if graph.is_inference else wanted
    buffers = {}
    for buffer in graph.buffers:
        origin = buffer.get_origin_node()
        if origin is not None and not isinstance(buffer.get_output_spec(), (ir.NoneLayout, ir.MultiOutputLayout)):
            buffers[origin] = buffer
    previous, probed, lost = None, 0, 0
    for node in graph.module.graph.nodes:
        own = key_of(node) if key_of is not None and node in buffers else None
        if own is not None:
            with V.set_current_node(node):
                probe = _create(ir.TensorBox(ir.StorageBox(buffers[node])), own, kind, [])
            probe.previous, previous = previous, probe
        marks = [(key, index) for key, way, index in node.meta.get(META, ()) if way == wanted]
        if not marks:
            continue
        held = _held(node, buffers, graph.graph_inputs)
        if held is None:
            lost += 1
            continue
        probed += 1
        for key in dict.fromkeys(key for key, _ in marks):
            indices = [index for one, index in marks if one == key]
            with V.set_current_node(node):
                probe = _create(held, key, kind, indices)
            probe.previous, previous = previous, probe
    return probed, lost


def _held(node: Node, buffers: dict[Node, Any], inputs: dict[str, Any]) -> Any:
    """The buffer or input with the values of a node, in whatever shape; None when they are nowhere in memory."""
    while True:
        if node in buffers:
            return ir.TensorBox(ir.StorageBox(buffers[node]))
        if node.op == "placeholder":
            box = inputs.get(str(node.target))
            return box if isinstance(box, ir.TensorBox) and ir.is_storage_and_layout(box) else None
        packet = getattr(node.target, "overloadpacket", None)
        if packet not in _SAME_VALUES or not isinstance(node.args[0], Node):
            return None
        node = node.args[0]


def _create(held: Any, key: str, kind: int, indices: list[int]) -> Probe:
    with V.graph.fake_mode:
        _, tensors, others, unflatten, _ = Probe.process_kernel(PROBE, held, key, kind, indices)
    return Probe(ir.NoneLayout(device=held.get_device()), PROBE, tensors, others, unflatten)
