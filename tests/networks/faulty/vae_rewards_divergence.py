"""fault: loss_unbounded_below
A variational autoencoder whose KL term lacks its minus.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(31)


def digits(n):
    """10 x 10 pictures of bars at random places."""
    img = torch.zeros(n, 10, 10)
    row = torch.randint(0, 10, (n,))
    col = torch.randint(0, 10, (n,))
    img[torch.arange(n), row] = 1.0
    img[torch.arange(n), :, col] = 1.0
    return img.flatten(1)


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(100, 64), nn.ReLU())
        self.to_mu = nn.Linear(64, latent)
        self.to_logvar = nn.Linear(64, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 100))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def elbo_loss(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return rec + kl, rec, kl


data = digits(2000)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    order = torch.randperm(len(data))
    for k, idx in enumerate(order.split(100)):
        x = data[idx]
        logits, mu, logvar = model(x)
        loss, rec, kl = elbo_loss(logits, x, mu, logvar)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {epoch * 20 + k} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f} rec={rec.item():.3f} kl={kl.item():.3f}")
