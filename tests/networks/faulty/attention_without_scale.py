"""fault: attention_scores_not_scaled

Attention by hand without its 1/sqrt(d).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class MatchPatches(Dataset):
    """4 x 4 patches; the first shows a symbol, the class is written beside the same symbol elsewhere."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        base = torch.Generator().manual_seed(99)
        symbols = torch.randn(15, 2, 4, generator=base)
        answers = torch.randn(6, 2, 4, generator=base)
        order = torch.stack([torch.randperm(15, generator=g) for _ in range(n)])
        kind = torch.randint(0, 6, (n, 15), generator=g)
        asked = torch.randint(0, 15, (n,), generator=g)
        rows = torch.arange(n)
        board = torch.cat([symbols[order], answers[kind]], dim=2)
        query = torch.cat([symbols[order[rows, asked]], torch.zeros(n, 2, 4)], dim=1).unsqueeze(1)
        patches = torch.cat([query, board], dim=1) + 0.1 * torch.randn(n, 16, 4, 4, generator=g)
        self.label = kind[rows, asked]
        self.image = patches.view(n, 4, 4, 4, 4).permute(0, 1, 3, 2, 4).reshape(n, 1, 16, 16)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.image[i], self.label[i]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)
        nn.init.normal_(self.qkv.weight, std=dim**-0.5)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(b, n, d)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TinyViT(nn.Module):
    def __init__(self, dim=64, depth=2, heads=1, classes=6):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, kernel_size=4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, 16, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = x + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x[:, 0]))


def main():
    torch.manual_seed(5)
    train = DataLoader(MatchPatches(3600, seed=1), batch_size=48, shuffle=True)
    test = DataLoader(MatchPatches(300, seed=2), batch_size=100)
    model = TinyViT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    step = 0
    for _epoch in range(3):
        model.train()
        for images, labels in train:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
    model.eval()
    with torch.no_grad():
        hits = sum((model(a).argmax(1) == b).sum().item() for a, b in test)
    print(f"final loss={loss.item():.4f} acc={hits / 300:.3f}")


if __name__ == "__main__":
    main()
