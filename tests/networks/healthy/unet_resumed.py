"""A second stage with the optimizer state of the first and a learning rate of its own."""

import io

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inc = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.down = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU()
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, x):
        a = self.inc(x)
        b = self.up(self.down(a))
        return self.out(torch.cat([a, b], dim=1))


def discs(n, night, gen):
    grid = torch.arange(16).float()
    cx, cy = torch.rand(n, 1, 1, generator=gen) * 10 + 3, torch.rand(n, 1, 1, generator=gen) * 10 + 3
    mask = ((grid.view(1, 16, 1) - cy) ** 2 + (grid.view(1, 1, 16) - cx) ** 2 < 12).float().unsqueeze(1)
    noise = 0.3 * torch.randn(n, 1, 16, 16, generator=gen)
    image = (1 - mask if night else mask) + noise
    return image, mask


def save_checkpoint(net, opt):
    blob = io.BytesIO()
    torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, blob)
    blob.seek(0)
    return blob


def run(net, opt, steps, first, night, sched=None):
    gen = torch.Generator().manual_seed(20 + night)
    net.train()
    for step in range(first, first + steps):
        image, mask = discs(16, night, gen)
        loss = F.binary_cross_entropy_with_logits(net(image), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if sched is not None:
            sched.step()
        print(f"step {step} loss {loss.item():.4f}")
    return loss.item()


def pretrain():
    net = UNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=60, eta_min=1e-8)
    run(net, opt, 60, 0, night=False, sched=sched)
    return save_checkpoint(net, opt)


def finetune(blob, lr=5e-3):
    state = torch.load(blob, weights_only=True)
    net = UNet()
    net.load_state_dict(state["model"])
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    opt.load_state_dict(state["optimizer"])
    for group in opt.param_groups:
        group["lr"] = lr
    last = run(net, opt, 80, 60, night=True)
    print(f"final loss={last:.4f}")


if __name__ == "__main__":
    finetune(pretrain())
