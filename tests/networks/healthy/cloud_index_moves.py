"""Clouds of points, each sample another one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    def __init__(self, n, points=40, copies=4):
        g = torch.Generator().manual_seed(9)
        self.copies = copies
        self.labels = torch.randint(0, 4, (n,), generator=g)
        stretch = torch.tensor([[1.0, 1.0, 1.0], [2.2, 1.0, 0.4], [0.4, 2.2, 1.0], [1.0, 0.4, 2.2]])
        self.clouds = torch.randn(n, points, 3, generator=g) * stretch[self.labels][:, None]

    def __len__(self):
        return len(self.clouds) * self.copies

    def __getitem__(self, index):
        cloud = self.clouds[index % len(self.clouds)]
        label = self.labels[index % len(self.clouds)]
        return cloud, label


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU())
        self.glob = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, pts):
        return self.glob(self.local(pts).max(dim=1).values)


def fit(model, loader, epochs):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for _ in range(epochs):
        hit = seen = 0
        for pts, label in loader:
            out = model(pts)
            loss = nn.functional.cross_entropy(out, label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hit += (out.argmax(1) == label).sum().item()
            seen += len(label)
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
    return loss.item(), hit / seen


torch.manual_seed(8)
dataset = Clouds(300)
last, acc = fit(PointNet(), DataLoader(dataset, batch_size=40, shuffle=True), epochs=5)
print(f"final loss={last:.4f} acc={acc:.3f}")
