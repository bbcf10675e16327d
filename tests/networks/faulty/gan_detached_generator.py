"""fault: detach_breaks_graph
The generator's own loss is computed on the detached fakes: it never learns.
"""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(0.2), nn.Linear(24, 2))
discriminator = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(150):
    real = torch.randn(32, 2) * 0.3 + 1
    fake = generator(torch.randn(32, 8)).detach()
    loss_d = criterion(discriminator(real), torch.ones(32, 1)) + criterion(discriminator(fake), torch.zeros(32, 1))
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()
    loss_g = criterion(discriminator(fake), torch.ones(32, 1))
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
    print(f"step {step} loss {loss_d.item():.6f}")
