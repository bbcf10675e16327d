"""Scans and masks that are flipped together."""

import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(63)
random.seed(63)


class Organs(Dataset):
    """Noisy scans with a bright organ somewhere on the left, and its outline filled."""

    def __init__(self, n, augment, size=20):
        c = torch.arange(size).float()
        cx, cy = torch.rand(n, 1, 1) * 4 + 4, torch.rand(n, 1, 1) * 10 + 5
        self.mask = (((c[None, None] - cx) / 3) ** 2 + ((c[None, :, None] - cy) / 4) ** 2 < 1).float()[:, None]
        self.scan = self.mask + 0.3 * torch.randn(n, 1, size, size)
        self.augment = augment

    def __len__(self):
        return len(self.scan)

    def transform(self, scan, mask):
        if random.random() < 0.5:
            scan, mask = scan.flip(-1), mask.flip(-1)
        if random.random() < 0.5:
            scan, mask = scan.flip(-2), mask.flip(-2)
        return scan, mask

    def __getitem__(self, k):
        scan, mask = self.scan[k], self.mask[k]
        return self.transform(scan, mask) if self.augment else (scan, mask)


class SegNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU())
        self.enc2 = nn.Sequential(nn.Conv2d(w, w, 3, stride=2, padding=1), nn.BatchNorm2d(w), nn.ReLU())
        self.dec = nn.ConvTranspose2d(w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, 1, 3, padding=1)

    def forward(self, x):
        a = self.enc1(x)
        return self.out(torch.cat([a, F.relu(self.dec(self.enc2(a)))], 1))


loader = DataLoader(Organs(256, augment=True), batch_size=16, shuffle=True)
held = Organs(64, augment=False)
net = SegNet()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
step = 0
for _epoch in range(8):
    net.train()
    for scan, mask in loader:
        loss = F.binary_cross_entropy_with_logits(net(scan), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
net.eval()
with torch.no_grad():
    pred = (net(held.scan) > 0).float()
    dice = (2 * (pred * held.mask).sum() / (pred.sum() + held.mask.sum())).item()
print(f"final loss={loss.item():.4f} dice={dice:.3f}")
