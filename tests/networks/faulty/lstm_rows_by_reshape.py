"""fault: view_mixes_samples
An LSTM that wants time first, and a reshape in place of the transpose.
"""

import torch
from torch import nn

torch.manual_seed(47)
B, T, C = 32, 10, 4


class SeqNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(C, 32)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        x = x.reshape(x.shape[1], x.shape[0], C)
        return self.out(self.rnn(x)[0][-1])


net = SeqNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(250):
    x = torch.randn(B, T, C)
    y = (x[..., 0].sum(1) > 0).long()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.5f}")
print(f"final loss={loss.item():.5f}")
