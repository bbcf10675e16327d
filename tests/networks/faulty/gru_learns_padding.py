"""fault: padding_not_ignored

Padding is counted among the targets of a language model.
"""

import torch
from torch import nn

torch.manual_seed(36)
V, T = 30, 30
lens = torch.randint(3, 8, (400,))
tok = torch.randint(1, V, (400, T + 1))
tok[torch.arange(T + 1)[None] >= lens[:, None]] = 0


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 32, padding_idx=0)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, V)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


net = LM()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(120):
    b = tok[torch.randint(0, 400, (30,))]
    out = net(b[:, :-1]).reshape(-1, V)
    loss = nn.functional.cross_entropy(out, b[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
