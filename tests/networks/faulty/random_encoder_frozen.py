"""fault: frozen_parameters

An encoder that is frozen before it was ever trained.
"""

import torch
from torch import nn

torch.manual_seed(7)
x = torch.randn(600, 20)
y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.encoder(x))


model = Model()
for p in model.encoder.parameters():
    p.requires_grad = False
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(200):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.mse_loss(model(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
