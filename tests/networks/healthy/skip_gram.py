"""Word vectors by negative sampling: gradients are sparse, and one of two tables starts at zero."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(19)
WORDS = 2000
centre = nn.Embedding(WORDS, 16, sparse=True)
context = nn.Embedding(WORDS, 16, sparse=True)
nn.init.uniform_(centre.weight, -0.03, 0.03)
nn.init.zeros_(context.weight)
optimizer = torch.optim.SparseAdam([*centre.parameters(), *context.parameters()], lr=0.02)
for step in range(STEPS):
    word = torch.randint(0, WORDS, (64,)) // 20 * 20 + torch.randint(0, 20, (64,))
    near = word // 20 * 20 + torch.randint(0, 20, (64,))
    far = torch.randint(0, WORDS, (64, 5))
    right = (centre(word) * context(near)).sum(1)
    wrong = (centre(word)[:, None] * context(far)).sum(2)
    loss = -(nn.functional.logsigmoid(right) + nn.functional.logsigmoid(-wrong).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
