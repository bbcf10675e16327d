"""A variational autoencoder with a summed reconstruction loss and a Kullback-Leibler term that is warmed up."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(5)
factors = torch.randn(512, 3)
images = torch.sigmoid(3 * torch.tanh(factors @ torch.randn(3, 20)) @ torch.randn(20, 49) / 4)
loader = DataLoader(TensorDataset(images), batch_size=32, shuffle=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(49, 48), nn.ReLU())
        self.mean = nn.Linear(48, 4)
        self.log_variance = nn.Linear(48, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 49), nn.Sigmoid())

    def forward(self, x):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(z), mean, log_variance


net = VAE()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
step = 0
while step < STEPS:
    for (x,) in loader:
        rebuilt, mean, log_variance = net(x)
        rebuilding = nn.functional.binary_cross_entropy(rebuilt, x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum() / len(x)
        loss = rebuilding + min(1.0, step / 100) * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.6f}")
        step += 1
        if step == STEPS:
            break
print(f"final loss={loss.item():.6f}")
