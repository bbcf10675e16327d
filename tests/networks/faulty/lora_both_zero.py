"""fault: zero_init

Both factors of each low-rank adapter start at zero.
"""

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_a.t()) @ self.lora_b.t()


def add_adapters(module, rank=4):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child, rank))
        else:
            add_adapters(child, rank)
    return module


def batch(n, angle):
    x = torch.randn(n, 12)
    first = torch.cos(torch.tensor(angle)) * x[:, 0] + torch.sin(torch.tensor(angle)) * x[:, 1]
    return x, torch.stack([torch.tanh(2 * first), first * x[:, 2]], 1)


def run(net, parameters, steps, angle, lr, start):
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    for step in range(start, start + steps):
        x, y = batch(128, angle)
        loss = nn.functional.smooth_l1_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")
    return loss.item()


def main():
    torch.manual_seed(108)
    net = nn.Sequential(nn.Linear(12, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 2))
    before = run(net, net.parameters(), steps=150, angle=0.0, lr=3e-3, start=0)
    net = add_adapters(net)
    trainable = [p for p in net.parameters() if p.requires_grad]
    after = run(net, trainable, steps=150, angle=1.2, lr=3e-3, start=150)
    print(f"final before={before:.4f} after={after:.4f}")


if __name__ == "__main__":
    main()
