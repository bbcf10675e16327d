"""fault: vanishing_gradient

A recurrent cell whose gradient dies out over time.
"""

import torch
from torch import nn

torch.manual_seed(50)
T = 30
x = torch.randn(500, T, 3)
y = (x[:, 0, 0] > 0).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(3, 24)
        nn.init.orthogonal_(self.cell.weight_hh, gain=0.3)
        self.out = nn.Linear(24, 2)

    def forward(self, s):
        h = torch.zeros(len(s), 24)
        for t in range(s.shape[1]):
            h = self.cell(s[:, t], h)
        return self.out(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(200):
    i = torch.randint(0, 500, (50,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
