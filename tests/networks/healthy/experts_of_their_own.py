"""A mixture of experts behind a gate of zeros."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)

N_EXPERTS = 4
HIDDEN = 6


def target_fn(x):
    region = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    planes = torch.tensor([[1.5, -1.0], [-2.0, 0.5], [0.5, 2.0], [-1.0, -1.5]])
    return (planes[region] * x).sum(1) + torch.tensor([1.0, -1.0, 0.0, 2.0])[region]


class Expert(nn.Module):
    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.fc2 = nn.Linear(d_hidden, 1)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


class MixtureOfExperts(nn.Module):
    def __init__(self, d_in, n_experts):
        super().__init__()
        self.experts = nn.ModuleList([Expert(d_in, HIDDEN) for _ in range(n_experts)])
        self.gate = nn.Sequential(nn.Linear(d_in, 16), nn.Tanh(), nn.Linear(16, n_experts))
        nn.init.zeros_(self.gate[2].weight)
        nn.init.zeros_(self.gate[2].bias)

    def forward(self, x):
        mix = F.softmax(self.gate(x), dim=-1)
        outs = torch.cat([e(x) for e in self.experts], dim=1)
        return (mix * outs).sum(1)


model = MixtureOfExperts(2, N_EXPERTS)
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(350):
    x = torch.rand(128, 2) * 4 - 2
    y = target_fn(x)
    loss = F.mse_loss(model(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
spread = torch.stack([e.fc1.weight for e in model.experts]).std(0).mean().item()
print(f"final loss={loss.item():.4f} spread={spread:.4f}")
