"""fault: representation_collapse

Both views of a siamese network are trained to agree, and nothing stops the gradient through either.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(83)


class Encoder(nn.Module):
    def __init__(self, features=32, width=64, out=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, out),
        )

    def forward(self, x):
        return self.net(x)


class Siamese(nn.Module):
    def __init__(self, out=32):
        super().__init__()
        self.encoder = Encoder(out=out)
        self.predictor = nn.Sequential(nn.Linear(out, 16), nn.ReLU(), nn.Linear(16, out))

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        return za, zb, self.predictor(za), self.predictor(zb)


def loss_fn(za, zb, pa, pb):
    return F.mse_loss(pa, zb) + F.mse_loss(pb, za)


centres = torch.randn(10, 32) * 1.5


def views(n=64):
    x = centres[torch.randint(0, 10, (n,))] + 0.5 * torch.randn(n, 32)
    return x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)


model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(250):
    a, b = views()
    za, zb, pa, pb = model(a, b)
    loss = loss_fn(za, zb, pa, pb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.6f}")
with torch.no_grad():
    spread = model.encoder(views(256)[0]).std(dim=0).mean().item()
print(f"final loss={loss.item():.6f} spread={spread:.5f}")
