"""A transformer encoder under bfloat16 autocast with weights in float32 and padding masks."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(10)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 32, padding_idx=0)
        self.place = nn.Parameter(0.02 * torch.randn(1, 10, 32))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm1 = nn.LayerNorm(32)
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.norm2 = nn.LayerNorm(32)
        self.head = nn.Linear(32, 4)

    def forward(self, ids):
        x = self.embedding(ids) + self.place
        seen, _ = self.attention(x, x, x, key_padding_mask=ids == 0, need_weights=False)
        x = self.norm1(x + seen)
        x = self.norm2(x + self.feed(x))
        return self.head(x)


net = Tagger()
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(STEPS):
    ids = torch.randint(1, 16, (16, 10))
    length = torch.randint(4, 11, (16, 1))
    ids = torch.where(torch.arange(10) < length, ids, 0)
    tags = (ids + ids.roll(1, 1)) % 4
    tags = torch.where(ids > 0, tags, -100)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tags.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
