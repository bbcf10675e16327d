"""fault: data_loading_starvation

Each sample takes two milliseconds, in the training's own process.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        time.sleep(0.002)
        g = torch.Generator().manual_seed(i)
        x = torch.randn(10, generator=g)
        return x, (x[:2].sum() > 0).long()


torch.manual_seed(0)
loader = DataLoader(Slow(), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
n = 0
for _epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {n} loss {loss.item():.4f}")
        n += 1
