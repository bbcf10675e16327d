"""fault: duplicate_samples_across_workers

An iterable data set that each worker hands out whole.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(0)
        get_worker_info()
        for _i in range(400):
            x = torch.randn(6, generator=g)
            yield x, (x[0] * x[1] > 0).long()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Stream(), batch_size=20, num_workers=2)
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
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
