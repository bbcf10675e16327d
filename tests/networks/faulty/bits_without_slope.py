"""fault: operator_without_slope
An autoencoder with a code of bits, rounded without a way around for the gradient.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(37)


class BinaryCoder(nn.Module):
    """Autoencoder whose code is a string of bits, for hashing."""

    def __init__(self, features=40, bits=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, 64), nn.SiLU(), nn.Linear(64, bits))
        self.decoder = nn.Sequential(nn.Linear(bits, 64), nn.SiLU(), nn.Linear(64, features))

    def quantise(self, logits):
        soft = torch.sigmoid(logits)
        return torch.round(soft)

    def forward(self, x):
        return self.decoder(self.quantise(self.encoder(x)))


factors = torch.randn(6, 40)
data = torch.sign(torch.randn(3000, 6)) @ factors + 0.1 * torch.randn(3000, 40)
data = data / data.std()
train, held = data[:2600], data[2600:]

model = BinaryCoder()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
start = model.encoder[0].weight.detach().clone()
for step in range(250):
    x = train[torch.randint(0, len(train), (128,))]
    loss = F.mse_loss(compiled(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    error = F.mse_loss(model(held), held).item()
moved = (model.encoder[0].weight - start).abs().max().item()
print(f"final loss={loss.item():.4f} held={error:.4f} moved={moved:.5f}")
