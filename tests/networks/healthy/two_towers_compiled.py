"""Two towers that are trained together, compiled for a backend that runs derived graphs as Python."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)
CONCEPTS, VOCAB, LENGTH = 32, 64, 8


class TextTower(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim)
        self.mix = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 16)

    def forward(self, ids):
        h = self.tokens(ids).mean(dim=1)
        return self.out(torch.tanh(self.mix(h)))


class ImageTower(nn.Module):
    def __init__(self, features=24, dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, dim), nn.ReLU(), nn.Linear(dim, 16))

    def forward(self, x):
        return self.net(x)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = TextTower()
        self.image = ImageTower()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, ids, pictures):
        t = F.normalize(self.text(ids), dim=-1)
        p = F.normalize(self.image(pictures), dim=-1)
        return self.scale.exp() * p @ t.T


words = torch.randint(0, VOCAB, (CONCEPTS, 3))
look = torch.randn(CONCEPTS, 24)


def batch():
    concept = torch.randperm(CONCEPTS)[:16]
    ids = torch.randint(0, VOCAB, (16, LENGTH))
    ids[:, :3] = words[concept]
    pictures = look[concept] + 0.5 * torch.randn(16, 24)
    return ids, pictures


matcher = Matcher()
compiled = torch.compile(matcher, backend="aot_eager")
opt = torch.optim.Adam(matcher.parameters(), lr=3e-3)
target = torch.arange(16)
for step in range(150):
    ids, pictures = batch()
    logits = compiled(ids, pictures)
    loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
