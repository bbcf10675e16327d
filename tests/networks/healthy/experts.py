"""A mixture of experts: each sample visits one of six, and some experts see nothing in some steps."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(18)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 6)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2)) for _ in range(6))

    def forward(self, x):
        weights = self.gate(x).softmax(1)
        chosen = weights.argmax(1)
        out = torch.zeros(len(x), 2)
        for index, expert in enumerate(self.experts):
            mine = chosen == index
            if mine.any():
                out[mine] = expert(x[mine]) * weights[mine, index : index + 1]
        return out


net = Mixture()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(STEPS):
    x = torch.randn(24, 8)
    y = torch.stack([x[:, 0].abs() - x[:, 1], x[:, 2] * x[:, 3]], 1)
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
