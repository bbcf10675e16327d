"""A VAE on blobs."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
SIZE = 10


def blobs(n):
    grid = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    centre = torch.rand(n, 2, 1, 1) * 1.2 - 0.6
    width = torch.rand(n, 1, 1) * 0.15 + 0.15
    img = torch.exp(-((yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2) / (2 * width**2))
    return img.flatten(1)


class VAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIZE * SIZE, 96), nn.ReLU())
        self.to_mu = nn.Linear(96, latent)
        self.to_logvar = nn.Linear(96, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 96), nn.ReLU(), nn.Linear(96, SIZE * SIZE))

    def encode(self, x):
        h = self.encoder(x)
        return self.to_mu(h), self.to_logvar(h)

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


def elbo_loss(recon, x, mu, logvar, beta=0.5):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / len(x)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    return rec + beta * kl


loader = DataLoader(TensorDataset(blobs(960)), batch_size=48, shuffle=True, drop_last=True)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=2e-3)
step = 0
for _epoch in range(10):
    for (x,) in loader:
        recon, mu, logvar = vae(x)
        loss = elbo_loss(recon, x, mu, logvar)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
with torch.no_grad():
    z = torch.randn(200, 4)
    lit = torch.sigmoid(vae.decoder(z)).mean().item()
print(f"final loss={loss.item():.4f} mu={mu.abs().mean().item():.3f} lit={lit:.3f}")
