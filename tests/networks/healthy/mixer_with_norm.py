"""Fourteen residual blocks with their norms."""

import torch
from torch import nn

PATCHES, CH, DEPTH, CLASSES = 16, 32, 14, 4


class MixerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Sequential(nn.Linear(PATCHES, 32), nn.GELU(), nn.Linear(32, PATCHES))
        self.channel = nn.Sequential(nn.Linear(CH, 64), nn.GELU(), nn.Linear(64, CH))
        self.norm1 = nn.LayerNorm(CH)
        self.norm2 = nn.LayerNorm(CH)

    def forward(self, x):
        x = x + self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(12, CH)
        self.blocks = nn.Sequential(*[MixerBlock() for _ in range(DEPTH)])
        self.head = nn.Linear(CH, CLASSES)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.kaiming_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, img):
        x = self.stem(img)
        x = self.blocks(x)
        return self.head(nn.functional.layer_norm(x, (CH,)).mean(1))


def build_data(n):
    proto = torch.randn(CLASSES, PATCHES, 12)
    y = torch.randint(0, CLASSES, (n,))
    return proto[y] * 0.6 + torch.randn(n, PATCHES, 12), y


torch.manual_seed(2)
x_train, y_train = build_data(1024)
model = Mixer()
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(80):
    idx = torch.randint(0, len(x_train), (32,))
    logits = model(x_train[idx])
    loss = nn.functional.cross_entropy(logits, y_train[idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
