"""A graph file of a dump as a graph of a run."""

from __future__ import annotations

from tensight.dump.anf import Anf
from tensight.dump.readers.mindspore_names import place
from tensight.records import Graph
from tensight.records.graph import Frame, NodeKind
from tensight.records.graph_builder import GraphBuilder

_KINDS: dict[str, NodeKind] = {
    "parameter": "parameter",
    "buffer": "buffer",
    "input": "input",
    "state": "state",
    "region": "region",
}


def _outside(builder: GraphBuilder, network: str, name: str, kind: NodeKind, outputs: tuple[str, ...] = ()) -> int:
    path, _, own = name.rpartition(".")
    return builder.add(own or name, builder.scope(network, path), kind=kind, outputs=outputs)


def record(name: str, step: int, graph: Anf, network: str = "", note: str = "read from a dump") -> Graph:
    """The graph in a run's words. Operators come in the order of the file, which is that of execution."""
    builder = GraphBuilder(name, step)
    places: dict[str, int] = {}
    for node in graph.nodes.values():
        if node.type.lower() in _KINDS and "/" not in node.name:
            places[node.name] = _outside(builder, network, node.name, _KINDS[node.type.lower()], node.outputs)
            continue
        at = place(node.name, node.type)
        for one in node.inputs:
            if one not in places and one not in graph.nodes:
                places[one] = _outside(builder, network, one, "parameter" if "." in one else "input")
        frames = [Frame(s.file, s.line, s.function, s.code, "site-packages" not in s.file) for s in node.stack]
        places[node.name] = builder.add(
            at.op,
            builder.scope(network, at.module, at.type),
            phase=at.phase,
            inputs=[places[one] for one in node.inputs if one in places],
            outputs=node.outputs,
            stack=builder.stack(frames),
        )
    return builder.build(note=note)
