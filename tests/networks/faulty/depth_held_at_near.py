"""fault: clamp_blocks_gradient

The output lies below the range that it is clamped to.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

NEAR, FAR = 2.5, 80.0


class DepthNet(nn.Module):
    """Encoder and decoder with one skip; gives metres."""

    def __init__(self, c=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(3, c), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(3, 2 * c), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Conv2d(2 * c, 1, 3, padding=1)

    def forward(self, image):
        fine = self.stem(image)
        coarse = F.relu(self.up(self.down(fine)))
        depth = self.out(torch.cat([fine, coarse], dim=1))
        return depth.clamp(NEAR, FAR)


def scenes(n, size=16):
    row = torch.linspace(1, 0, size).view(1, 1, size, 1).expand(n, 1, size, size)
    tilt = torch.rand(n, 1, 1, 1) * 30 + 20
    depth = (3 + tilt * row + 2 * torch.rand(n, 1, size, size)).clamp(NEAR, FAR)
    image = torch.cat([1 / depth, row * 0.5, depth / FAR], dim=1) + 0.02 * torch.randn(n, 3, size, size)
    return (image - image.mean((0, 2, 3), keepdim=True)) / image.std((0, 2, 3), keepdim=True), depth


def silog(predicted, depth):
    error = predicted.log() - depth.log()
    return error.square().mean() - 0.5 * error.mean().square()


def run(epochs=10, batch=16):
    torch.manual_seed(3)
    image, depth = scenes(192)
    net = DepthNet()
    with torch.no_grad():
        net.out.bias.zero_()
    groups = [
        {"params": [p for n, p in net.named_parameters() if "out" not in n]},
        {"params": net.out.parameters(), "lr": 0.01},
    ]
    opt = torch.optim.Adam(groups, lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    step = 0
    for _ in range(epochs):
        order = torch.randperm(len(image))
        for index in order.split(batch):
            opt.zero_grad()
            loss = silog(net(image[index]), depth[index])
            loss.backward()
            opt.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
        sched.step()
    with torch.no_grad():
        guess = net(image)
    print(f"final loss={silog(guess, depth).item():.4f} at_limit={(guess == NEAR).float().mean().item():.3f}")


run()
