"""fault: targets_not_shifted

A language model whose targets are its inputs.
"""

import torch
from torch import nn

torch.manual_seed(24)
V, T = 40, 20
data = torch.randint(0, V, (300, T + 1))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, V)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


net = LM()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(120):
    b = data[torch.randint(0, 300, (30,))]
    x, y = b[:, :-1], b[:, :-1]
    loss = nn.functional.cross_entropy(net(x).reshape(-1, V), y.reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
