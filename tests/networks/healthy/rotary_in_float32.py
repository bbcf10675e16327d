"""Rotary positions in float32 under bf16 autocast."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)
VOCAB, DIM, HEADS, CHUNK, LONG = 12, 48, 3, 48, 3072
DTYPE = torch.bfloat16
document = torch.randint(0, VOCAB, (24, LONG))


def rotary_table(start, length, size):
    frequency = 1.0 / (1000.0 ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
    position = torch.arange(start, start + length, dtype=torch.float32)
    angle = position.float()[:, None] * frequency[None, :]
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.value, self.out = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, x, table):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, DIM // HEADS).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = rotate(q, *table), rotate(k, *table)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norm1, self.attention = nn.LayerNorm(DIM), Attention()
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, tokens, start):
        table = rotary_table(start, tokens.shape[1], DIM // HEADS)
        x = self.embed(tokens)
        x = x + self.attention(self.norm1(x), table)
        return self.head(x + self.mlp(self.norm2(x)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 20))
recent = []
for step in range(110):
    start = int(torch.randint(0, LONG // CHUNK, (1,))) * CHUNK
    tokens = document[torch.randperm(24)[:16], start : start + CHUNK]
    with torch.autocast("cpu", dtype=DTYPE):
        logits = model(tokens, start)
        loss = F.cross_entropy(logits[:, 2:].reshape(-1, VOCAB).float(), tokens[:, :-2].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    recent = ([*recent, loss.item()])[-30:]
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={sum(recent) / len(recent):.4f}")
