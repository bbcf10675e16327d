"""Activations that are called as functions inside compiled code get marks of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tensight.frameworks.torch.compiled_plan import Mark, plan


class Entry(SimpleNamespace):
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.outer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x))) + torch.tanh(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.last = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.last(F.relu(self.blocks[0](x)).relu())


def functions(net: nn.Module) -> list[Mark]:
    """The marks of functions in the graph that is captured of a network."""
    entries = {
        id(part): Entry(path=path, network="net", type=type(part).__name__, activation=isinstance(part, nn.ReLU))
        for path, part in net.named_modules()
    }
    found: list[Mark] = []

    def backend(model: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        entry_of: Any = entries.get
        found.extend(plan(model.graph, entry_of, entry_of(id(net))).marks)
        return model.forward

    torch._dynamo.reset()
    torch.compile(net, backend=backend)(torch.randn(2, 4))
    return [mark for mark in found if mark.function]


def test_functions_are_marked_with_their_module_its_call_and_their_line() -> None:
    marks = functions(Net())
    said = [(mark.entry.path, mark.call, mark.slot) for mark in marks]
    block = [("relu.0", "tanh.0")]
    expected = [("blocks.0", 0, slot) for slot in block[0]] + [("blocks.1", 0, slot) for slot in block[0]]
    expected += [("blocks.0", 1, slot) for slot in block[0]] + [("", 0, "relu.0"), ("", 0, "relu.1")]
    assert said == expected
    assert marks[0].source is not None
    assert "torch.relu(self.inner(x))" in marks[0].source.code


def test_an_activation_module_is_looked_at_as_a_whole_and_not_twice() -> None:
    assert functions(nn.Sequential(nn.Linear(4, 4), nn.ReLU())) == []
