"""fault: frozen_batchnorm_still_updates

model.train() wakes the batch norm of a frozen part.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Backbone(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv1d(2, 16, 5, padding=2),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5, padding=2),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        )


class TwoMachines(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.backbone = Backbone()
        self.old_head = nn.Linear(32, classes)
        self.new_head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))

    def freeze(self):
        for module in (self.backbone, self.old_head):
            module.requires_grad_(False)

    def forward(self, x, head):
        return getattr(self, head)(self.backbone(x))


def recordings(n, classes, seed, gain=1.0, offset=0.0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    t = torch.arange(48).float()
    wave = torch.stack([torch.sin(t * (0.25 + 0.22 * y[:, None])), torch.cos(t * (0.15 + 0.3 * y[:, None]))], dim=1)
    return gain * (wave + 0.3 * torch.randn(n, 2, 48, generator=g)) + offset, y


@torch.no_grad()
def accuracy(model, x, y, head):
    model.eval()
    return (model(x, head).argmax(1) == y).float().mean().item()


def fit(model, x, y, head, epochs, lr, step):
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=lr)
    for epoch in range(epochs):
        model.train()
        for index in torch.randperm(len(x)).split(32):
            loss = F.cross_entropy(model(x[index], head), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
        print(f"epoch {epoch} {head} accuracy {accuracy(model, x, y, head):.3f}")
    return step


torch.manual_seed(27)
model = TwoMachines()
old_x, old_y = recordings(512, 4, seed=1)
new_x, new_y = recordings(512, 3, seed=2, gain=4.0, offset=6.0)
step = fit(model, old_x, old_y, "old_head", epochs=4, lr=3e-3, step=0)
before = accuracy(model, old_x, old_y, "old_head")
model.freeze()
step = fit(model, new_x, new_y, "new_head", epochs=5, lr=3e-3, step=step)
after = accuracy(model, old_x, old_y, "old_head")
print(f"final before={before:.3f} after={after:.3f} new={accuracy(model, new_x, new_y, 'new_head'):.3f}")
