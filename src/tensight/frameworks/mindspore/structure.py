"""The structure of a step for the graph view: operators of the forward pass, and each compiled network as a region."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType
from typing import TYPE_CHECKING

from mindspore import Tensor

from tensight.frameworks.mindspore.networks import Networks
from tensight.frameworks.mindspore.operators import MOVES, Call, public_name
from tensight.frameworks.mindspore.origins import Origins
from tensight.frameworks.mindspore.values import dtype_name
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import is_user_file, source_of
from tensight.records.graph import Frame, Graph, NodeKind
from tensight.records.graph_builder import GraphBuilder

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

_MOST_FRAMES = 60
_NOTE = "operators of the forward pass; MindSpore shows only a part of its backward operators, and they are left out"
_COMPILED = "compiled code runs outside Python: each network is one region; run in PyNative mode to see its operators"
COPIED = (
    "operators of the forward pass, seen where a copy of the process ran the same code as Python: the compiled code may"
    " join or replace some"
)


class Structure:
    """Observes operators (see `operators.Observer`) in the step in which the sink asks for structure."""

    def __init__(self, watching: Watching, networks: Networks, cells: Cells) -> None:
        self._watching = watching
        self._networks = networks
        self._cells = cells
        self._builder: GraphBuilder | None = None
        self._origins = Origins()
        self._told = False
        self.note = _NOTE

    @property
    def wanted(self) -> bool:
        return bool(getattr(self._watching.sink, "structure", False)) and not self._told

    def seen(self, call: Call) -> None:
        if self._cells.phase != "forward" or not call.outputs:
            return  # the others ask for a type or a range
        if self._builder is None:
            step = self._watching.sink.step
            passing = {name for name in MOVES if name != "embedding"}
            self._builder = GraphBuilder(f"step {step}", step, passing=passing)
            self._hold()
        builder = self._builder
        for frame in self._cells.stack:  # those around it too, which may have no operator of their own
            builder.scope(frame.cell.network.name, frame.cell.path, frame.cell.type)
        scope = builder.scope(call.network, call.module)
        inputs = [self._source(tensor, scope) for tensor in call.inputs]
        node = builder.add(
            call.primitive if public_name(call.primitive) not in MOVES else public_name(call.primitive),
            scope,
            inputs=inputs,
            outputs=[words(tensor) for tensor in call.outputs[:8]],
            stack=self._stack(),
        )
        for tensor in call.outputs:
            self._origins.add(tensor, node)

    def over(self) -> None:
        """The step may be over: tell what was seen."""
        if self.wanted or self._told:
            return
        if self._builder is not None:
            self._watching.sink.graph(self._builder.build(self.note))
            self._told = True
        self._builder = None
        self._origins.clear()

    def tell(self, graph: Graph) -> None:
        """What a copy has seen of a compiled step, when the sink asks for it."""
        if self.wanted:
            self._watching.sink.graph(graph)
            self._told = True

    def outline(self) -> None:
        """In a step of compiled code: each network as one region with what it holds, when the sink asks for it."""
        if not self.wanted or self._builder is not None:
            return
        step = self._watching.sink.step
        builder = GraphBuilder(f"step {step}", step)
        for network in self._networks.all:
            inputs = []
            for weight in network.weights:
                tensor = weight.ref()
                if tensor is not None:
                    kind: NodeKind = "buffer" if weight.kind == "buffer" else "parameter"
                    home = builder.scope(network.name, weight.node, weight.type)
                    inputs.append(builder.add(weight.slot, home, kind=kind, outputs=[words(tensor)]))
            root = network.root()
            name = type(root).__name__ if root is not None else network.name
            home = builder.scope(network.name, "", name)
            builder.add(f"compiled {name}" if network.compiled else name, home, kind="region", inputs=inputs)
        self._watching.sink.graph(builder.build(_COMPILED))
        self._told = True

    def _hold(self) -> None:
        assert self._builder is not None
        for network in self._networks.all:
            for weight in network.weights:
                tensor = weight.ref()
                if tensor is not None:
                    home = self._builder.scope(network.name, weight.node, weight.type)
                    kind: NodeKind = "buffer" if weight.kind == "buffer" else "parameter"
                    node = self._builder.add(weight.slot, home, kind=kind, outputs=[words(tensor)])
                    self._origins.hold(tensor, node)

    def _source(self, tensor: Tensor, scope: int) -> int:
        node = self._origins.node(tensor)
        if node is not None:
            return node
        builder = self._builder
        assert builder is not None
        if tensor.size <= 1:
            return -1  # numbers of the program
        whole = self._origins.whole(tensor)
        if whole is not None:
            node = builder.add("index", scope, inputs=[whole], outputs=[words(tensor)], stack=self._stack(5))
        else:
            node = builder.add("input", builder.scope("", ""), kind="input", outputs=[words(tensor)])
        self._origins.add(tensor, node)
        return node

    def _stack(self, above: int = 4) -> int:
        assert self._builder is not None
        frames: list[Frame] = []
        frame: FrameType | None = sys._getframe(above)
        while frame is not None and len(frames) < _MOST_FRAMES:
            file = frame.f_code.co_filename
            if is_user_file(file):
                source = source_of(file, frame.f_lineno, frame.f_code.co_name)
                frames.append(Frame(source.file, source.line, source.function, source.code))
                if os.path.isfile(file):
                    self._builder.file(source.file, "".join(linecache.getlines(file)))
            frame = frame.f_back
        return self._builder.stack(frames)


def words(tensor: Tensor) -> str:
    """What a tensor is: 'float32[32, 84]'."""
    return f"{dtype_name(tensor)}[{', '.join(map(str, tensor.shape))}]"
