"""A warm-up that is stepped with each update."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--warmup", type=int, default=60)
parser.add_argument("steps", type=int, nargs="?", default=240)
parser.add_argument("--batch", type=int, default=32)
args = parser.parse_args()

torch.manual_seed(8)
VOCAB, LENGTH, DIM = 20, 12, 48


class Tagger(nn.Module):
    """Labels every position with the token that stands opposite to it (sequence reversal)."""

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.randn(LENGTH, DIM) * 0.3)
        layer = nn.TransformerEncoderLayer(
            DIM, nhead=4, dim_feedforward=96, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        return self.out(self.norm(self.encoder(self.tok(ids) + self.pos)))


def lr_factor(step):
    step = step + 1
    if step < args.warmup:
        return (step / args.warmup) ** 2
    return (args.warmup / step) ** 0.5


model = Tagger()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)
for step in range(args.steps):
    ids = torch.randint(0, VOCAB, (args.batch, LENGTH))
    target = ids.flip(1)
    logits = model(ids)
    loss = criterion(logits.reshape(-1, VOCAB), target.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    print(f"step {step} loss {loss.item():.4f}")
acc = (logits.argmax(-1) == target).float().mean().item()
print(f"final loss={loss.item():.4f} acc={acc:.3f}")
