"""fault: weight_decay_too_large
The weight decay pulls every weight to zero faster than gradients can build it up.
"""

import torch
from torch import nn

torch.manual_seed(9)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 24)
        self.lstm = nn.LSTM(24, 24, batch_first=True)
        self.head = nn.Linear(24, 16)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


net = Model()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=20.0)
for step in range(200):
    ids = (torch.randint(0, 16, (8, 1)) + 3 * torch.arange(11)) % 16
    loss = nn.functional.cross_entropy(net(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
