"""Batches that are sorted by length, with their labels or without."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from .conftest import Watch


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(words).mean(1))


def told(watch: Watch, way: str) -> list[dict]:
    sink = watch()
    net = Reader()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        words, labels = torch.randint(0, 30, (24, 6)), torch.randint(0, 4, (24,))
        lengths = torch.randint(1, 7, (24,))
        order = lengths.sort(descending=True)[1] if way == "sort alone" else lengths.argsort(descending=True)
        if way != "lengths only":
            words = words[order]
        lengths = lengths[order]
        if way == "together":
            labels = labels[order]
        answers = net(words)
        if way == "put back":
            answers = answers[order.argsort()]
        loss = F.cross_entropy(answers, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert sink.failures == []
    return sink.kinds("permuted")


@pytest.mark.parametrize("way", ["argsort alone", "sort alone"])
def test_inputs_sorted_without_their_labels_are_told(watch: Watch, way: str) -> None:
    (found,) = told(watch, way)
    assert (found["size"], found["values"]) == (24, True)


@pytest.mark.parametrize("way", ["together", "lengths only", "put back"])
def test_what_is_sorted_together_or_put_back_is_not_told(watch: Watch, way: str) -> None:
    assert told(watch, way) == []


def test_a_compiled_function_may_sort(watch: Watch) -> None:
    sink = watch()
    compiled = torch.compile(lambda x: x.sort()[0] + x.argsort(), backend="eager", fullgraph=True)
    assert compiled(torch.tensor([3.0, 1.0, 2.0])).tolist() == [2.0, 4.0, 3.0]
    assert sink.failures == []
