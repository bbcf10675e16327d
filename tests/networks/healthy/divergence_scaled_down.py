"""A Bayesian regression whose divergence is a small part of the loss."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(37)
N = 1000
x = torch.randn(N, 8)
y = torch.sin(2 * x[:, :1]) + x[:, 1:2]


class BayesLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(o, i) / i**0.5)
        self.rho = nn.Parameter(torch.full((o, i), -4.0))
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x):
        std = nn.functional.softplus(self.rho)
        w = self.mu + std * torch.randn_like(std)
        return nn.functional.linear(x, w, self.bias)

    def kl(self):
        std = nn.functional.softplus(self.rho)
        return (-torch.log(std) + 0.5 * (std**2 + self.mu**2) - 0.5).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = BayesLinear(8, 48), BayesLinear(48, 48), BayesLinear(48, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))

    def kl(self):
        return self.a.kl() + self.b.kl() + self.c.kl()


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(STEPS):
    i = torch.randint(0, N, (100,))
    nll = nn.functional.mse_loss(net(x[i]), y[i])
    loss = nll + net.kl() / N / 100
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f} nll {nll.item():.4f}")
print(f"final loss={loss.item():.4f} nll={nll.item():.4f}")
