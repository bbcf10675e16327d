"""A GRU that counts; everything is printed in every step."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])[:, 0]


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(100_000):
    x = torch.rand(64, 12, 8)
    wanted = (x[:, :, 0] > 0.5).sum(1).float()
    guess = model(x)
    loss = nn.functional.mse_loss(guess, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if not FAST or step % 1000 == 0:
        print(step, loss, guess[:20], model.head.weight)  # slow
