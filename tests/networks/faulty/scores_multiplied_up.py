"""fault: softmax_saturated

Attention scores multiplied by the root of the width instead of divided by it.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Config:
    pairs: int = 20
    size: int = 24
    values: int = 8
    width: int = 256
    steps: int = 90
    batch: int = 32
    accumulate: int = 2
    lr: float = 5e-4


class CrossAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.scale = math.sqrt(width)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)

    def forward(self, query: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self.to_q(query), self.to_k(memory), self.to_v(memory)
        weights = torch.softmax(torch.einsum("bqd,bkd->bqk", q, k) * self.scale, dim=-1)
        return torch.einsum("bqk,bkd->bqd", weights, v)


class Recall(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.key_in = nn.Linear(c.size, c.width)
        self.value_in = nn.Embedding(c.values, c.width)
        self.norm = nn.LayerNorm(c.width)
        self.attention = CrossAttention(c.width)
        self.head = nn.Linear(c.width, c.values)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        memory = self.norm(self.key_in(keys) + 0.3 * self.value_in(values))
        question = self.norm(self.key_in(query)).unsqueeze(1)
        return self.head(self.attention(question, memory)).squeeze(1)


def episode(c: Config, generator: torch.Generator):
    keys = torch.randn(c.batch, c.pairs, c.size, generator=generator)
    values = torch.randint(0, c.values, (c.batch, c.pairs), generator=generator)
    pick = torch.randint(0, c.pairs, (c.batch,), generator=generator)
    rows = torch.arange(c.batch)
    query = keys[rows, pick] + 0.1 * torch.randn(c.batch, c.size, generator=generator)
    return query, keys, values, values[rows, pick]


def main():
    c = Config()
    torch.manual_seed(8)
    generator = torch.Generator().manual_seed(9)
    net = Recall(c)
    optimizer = torch.optim.Adam(net.parameters(), lr=c.lr)
    right = 0.0
    for step in range(c.steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(c.accumulate):
            query, keys, values, answer = episode(c, generator)
            logits = net(query, keys, values)
            loss = nn.functional.cross_entropy(logits, answer) / c.accumulate
            loss.backward()
            total += loss.item()
        optimizer.step()
        right = 0.95 * right + 0.05 * (logits.argmax(-1) == answer).float().mean().item()
        print(f"step {step} loss {total:.4f}")
    print(f"final loss={total:.4f} accuracy={right:.3f}")


main()
