"""fault: duplicate_augmentation_across_workers

A data set that carries its random generator into every worker.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 6, generator=g)
        self.y = (self.x[:, 0] > 0).long()
        self.rng = np.random.RandomState(0)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = self.rng.randn(6)
        return self.x[i] + torch.tensor(noise, dtype=torch.float32) * 0.3, self.y[i]


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Noisy(320), batch_size=16, shuffle=True, num_workers=2)
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    n = 0
    for _epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"step {n} loss {loss.item():.4f}")
            n += 1
