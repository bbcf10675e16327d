"""fault: overlap_of_logits

Dice of a U-Net's raw outputs.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Polyps(Dataset):
    """Bright blobs on a noisy ground, and their masks."""

    def __init__(self, n, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        centre = torch.randint(6, size - 6, (n, 2), generator=g)
        radius = torch.randint(3, 7, (n,), generator=g)
        far = (yy - centre[:, 0, None, None]) ** 2 + (xx - centre[:, 1, None, None]) ** 2
        self.mask = (far < radius[:, None, None] ** 2).float().unsqueeze(1)
        self.image = self.mask + 0.6 * torch.randn(self.mask.shape, generator=g) - 0.2

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return {"image": self.image[i], "mask": self.mask[i]}


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.1))


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.enc1, self.enc2, self.mid = double(1, c), double(c, 2 * c), double(2 * c, 4 * c)
        self.dec2, self.dec1 = double(6 * c, 2 * c), double(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        a = self.dec1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, output, mask):
        output, mask = output.flatten(1), mask.flatten(1)
        overlap = (output * mask).sum(1)
        dice = (2 * overlap + self.smooth) / (output.sum(1) + mask.sum(1) + self.smooth)
        return 1 - dice.mean()


def evaluate(net, loader):
    hits = total = 0.0
    net.eval()
    with torch.no_grad():
        for batch in loader:
            guess = (torch.sigmoid(net(batch["image"])) > 0.5).float()
            hits += (guess * batch["mask"]).sum().item()
            total += ((guess + batch["mask"]) > 0).sum().item()
    net.train()
    return hits / total


torch.manual_seed(51)
train, valid = DataLoader(Polyps(160, seed=1), 16, shuffle=True), DataLoader(Polyps(48, seed=2), 48)
net, criterion = UNet(), DiceLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
step = 0
for epoch in range(6):
    for batch in train:
        optimizer.zero_grad()
        loss = criterion(net(batch["image"]), batch["mask"])
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
    iou = evaluate(net, valid)
    print(f"epoch {epoch} iou {iou:.3f}")
print(f"final loss={loss.item():.4f} iou={iou:.3f}")
