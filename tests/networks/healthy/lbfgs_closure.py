"""A physics-informed network trained by LBFGS, whose closure clears and fills the gradients many times per step."""

import torch
from torch import nn

torch.manual_seed(14)
torch.set_default_dtype(torch.float64)


class Field(nn.Module):
    """u(t) of the oscillator u'' + 0.4 u' + 4 u = 0, u(0) = 1, u'(0) = 0."""

    def __init__(self, width=24):
        super().__init__()
        self.inp = nn.Linear(1, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, t):
        return self.out(torch.tanh(self.hidden(torch.tanh(self.inp(t)))))


def derivative(u, t):
    return torch.autograd.grad(u.sum(), t, create_graph=True)[0]


def residual(field, t):
    t = t.clone().requires_grad_(True)
    u = field(t)
    du = derivative(u, t)
    ddu = derivative(du, t)
    return ddu + 0.4 * du + 4 * u, u, du


field = Field()
points = torch.linspace(0, 3, 64)[:, None]
optimizer = torch.optim.LBFGS(field.parameters(), lr=0.5, max_iter=8, history_size=20)


def closure():
    optimizer.zero_grad()
    res, u, du = residual(field, points)
    loss = res.square().mean() + 10 * (u[0] - 1).square().sum() + 10 * du[0].square().sum()
    loss.backward()
    return loss


for step in range(60):
    loss = optimizer.step(closure)
    print(f"step {step} loss {loss.item():.6f}")

with torch.no_grad():
    w = (4 - 0.04) ** 0.5
    t = points
    exact = torch.exp(-0.2 * t) * (torch.cos(w * t) + 0.2 / w * torch.sin(w * t))
    error = (field(t) - exact).abs().max().item()
print(f"final loss={loss.item():.6f} error={error:.4f}")
