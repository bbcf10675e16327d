"""A language model in small that is saved after every step."""

import os
import sys
import tempfile

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5000, 64)
        self.mix = nn.Linear(64 * 8, 128)
        self.head = nn.Linear(128, 5000)

    def forward(self, tokens):
        return self.head(torch.relu(self.mix(self.embed(tokens).flatten(1))))


model = Language()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
text = torch.randint(0, 5000, (4096, 9))
path = os.path.join(tempfile.mkdtemp(), "last.pt")
for step in range(100_000):
    rows = text[step % 64 * 64 : step % 64 * 64 + 64]
    loss = nn.functional.cross_entropy(model(rows[:, :8]), rows[:, 8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if not FAST or step % 1000 == 999:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)  # slow
