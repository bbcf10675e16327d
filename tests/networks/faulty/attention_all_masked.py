"""fault: softmax_all_masked
From some batch on, one sequence is all padding: every score of its rows is minus infinity.
"""

import torch
from torch import nn

torch.manual_seed(3)


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        self.query = nn.Linear(16, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, ids):
        x = self.embedding(ids)
        scores = self.query(x) @ x.transpose(1, 2) / 4
        scores = scores.masked_fill((ids == 0)[:, None, :], float("-inf"))
        return self.head((torch.softmax(scores, -1) @ x).mean(1))


net = Pool()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(100):
    ids = torch.randint(1, 12, (16, 6))
    ids[:, 4:] = 0
    if step == 40:
        ids[5] = 0
    loss = nn.functional.cross_entropy(net(ids), ids[:, 0] % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
