"""fault: attention_mask_wrong

A language model whose attention has no causal mask.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(20)
V, T = 30, 24
data = torch.randint(0, V, (300, T + 1))


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (z.view(B, T, self.h, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v)
        return self.o(a.transpose(1, 2).reshape(B, T, D))


class GPT(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(T, d)
        self.attn, self.ln1, self.ln2 = Attn(d, 4), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 96), nn.GELU(), nn.Linear(96, d))
        self.head = nn.Linear(d, V)

    def forward(self, t):
        x = self.tok(t) + self.pos(torch.arange(t.shape[1]))
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return self.head(x)


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(150):
    b = data[torch.randint(0, 300, (32,))]
    logits = model(b[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, V), b[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
