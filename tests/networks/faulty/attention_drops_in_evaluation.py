"""fault: dropout_active_in_eval

Attention is given dropout_p whatever the mode of the model.
"""

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, LENGTH, DIM = 12, 10, 48


def sequences(n, generator):
    x = torch.randint(2, SYMBOLS, (n, LENGTH), generator=generator)
    y = torch.randint(0, 2, (n,), generator=generator)
    place = torch.randint(0, LENGTH, (n,), generator=generator)
    rows = y == 1
    x[rows, place[rows]] = 1
    return x, y


class SelfAttention(nn.Module):
    def __init__(self, heads=4, dropout=0.25):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Classifier(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, DIM)
        self.place = nn.Parameter(0.1 * torch.randn(LENGTH, DIM))
        self.attend = nn.ModuleList(SelfAttention() for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(layers))
        self.mlp = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, ids):
        h = self.embed(ids) + self.place
        for norm, attend in zip(self.norms, self.attend):
            h = h + attend(norm(h))
        return self.mlp(h.mean(1))


@torch.inference_mode()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    score = (logits.argmax(1) == y).float().mean().item()
    model.train()
    return score, logits.clone()


def main():
    torch.manual_seed(115)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(8)
    held_x, held_y = sequences(300, torch.Generator().manual_seed(77))
    for step in range(160):
        x, y = sequences(64, generator)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        if step % 40 == 39:
            score, _ = evaluate(model, held_x, held_y)
            print(f"held-out accuracy {score:.3f}")
    a, b = evaluate(model, held_x, held_y)[1], evaluate(model, held_x, held_y)[1]
    print(f"final accuracy={score:.3f} differs={(a - b).abs().max().item():.4f}")


if __name__ == "__main__":
    main()
