"""A U-Net that segments discs: skip connections, group norm, class imbalance, Dice plus binary cross-entropy."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(2)


def double(into, out):
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1),
        nn.GroupNorm(2, out),
        nn.SiLU(),
        nn.Conv2d(out, out, 3, padding=1),
        nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = double(1, 6)
        self.down2 = double(6, 12)
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2)
        self.merge = double(12, 6)
        self.out = nn.Conv2d(6, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(nn.functional.avg_pool2d(a, 2))
        return self.out(self.merge(torch.cat([a, self.up(b)], 1)))


def discs(count):
    ys, xs = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    centre = torch.rand(count, 2, 1, 1) * 8 + 2
    mask = ((ys - centre[:, 0]) ** 2 + (xs - centre[:, 1]) ** 2 < 5).float().unsqueeze(1)
    return mask + 0.5 * torch.randn_like(mask), mask


net = UNet()
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
for step in range(STEPS):
    x, mask = discs(8)
    logits = net(x)
    probability = torch.sigmoid(logits)
    dice = 1 - (2 * (probability * mask).sum((1, 2, 3)) + 1) / ((probability + mask).sum((1, 2, 3)) + 1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, mask) + dice.mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
