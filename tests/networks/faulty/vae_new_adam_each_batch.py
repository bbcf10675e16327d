"""fault: optimizer_rebuilt_every_step

The optimizer is made where it is used.
"""

import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, dim=32, hidden=96, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean, logvar


class Trainer:
    def __init__(self, model, lr, beta=0.01):
        self.model, self.lr, self.beta = model, lr, beta
        self.steps = 0

    def configure_optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.lr)

    def loss(self, x):
        recon, mean, logvar = self.model(x)
        kl = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(dim=1).mean()
        return F.mse_loss(recon, x) + self.beta * kl / x.shape[1]

    def train_batch(self, x):
        optimizer = self.configure_optimizer()
        optimizer.zero_grad()
        loss = self.loss(x)
        loss.backward()
        optimizer.step()
        print(f"step {self.steps} loss {loss.item():.5f}")
        self.steps += 1
        return loss.item()

    def fit(self, data, epochs, batch):
        for _ in range(epochs):
            order = torch.randperm(len(data))
            tail = [self.train_batch(data[order[k : k + batch]]) for k in range(0, len(data), batch)]
        return sum(tail) / len(tail)


def main():
    torch.manual_seed(5)
    factors = torch.randn(1024, 3)
    data = torch.tanh(factors @ torch.randn(3, 32)) + 0.02 * torch.randn(1024, 32)
    trainer = Trainer(VAE(), lr=1e-2)
    last = trainer.fit(data, epochs=12, batch=64)
    print(f"final loss={last:.5f}")


main()
