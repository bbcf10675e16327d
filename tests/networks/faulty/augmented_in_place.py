"""fault: stored_data_changes

Augmentation that changes the stored samples.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Aug(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.y = torch.randint(0, 3, (240,), generator=g)
        self.x = torch.randn(3, 16, generator=g)[self.y] + 0.3 * torch.randn(240, 16, generator=g)

    def __len__(self):
        return 240

    def __getitem__(self, i):
        x = self.x[i]
        x *= 1.4
        return x, self.y[i]


torch.manual_seed(0)
loader = DataLoader(Aug(), batch_size=24, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
n = 0
for _epoch in range(15):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {n} loss {loss.item():.4f}")
        n += 1
