"""fault: recompilation_storm

A compiled forward pass reads a Python number that is another one in each call.
"""

import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, dim=24, experts=4, classes=5):
        super().__init__()
        self.calls = 0
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 48), nn.GELU(), nn.Linear(48, classes)) for _ in range(experts)
        )

    def forward(self, x):
        self.calls += 1
        temperature = max(0.5, 2.0 - 0.01 * self.calls)
        weight = torch.softmax(self.gate(x) / temperature, dim=1)
        votes = torch.stack([e(x) for e in self.experts], dim=2)
        return (votes * weight.unsqueeze(1)).sum(2)


def batches(n, size):
    generator = torch.Generator().manual_seed(21)
    centres = 1.5 * torch.randn(5, 24, generator=generator)
    for _ in range(n):
        y = torch.randint(0, 5, (size,), generator=generator)
        yield centres[y] + torch.randn(size, 24, generator=generator), y


torch.manual_seed(116)
model = Gated()
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, (x, y) in enumerate(batches(40, 64)):
    loss = nn.functional.cross_entropy(fast(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
