"""fault: unregistered_parameters

A layer that every forward pass makes anew.
"""

import torch
from torch import nn

torch.manual_seed(10)
x = torch.randn(600, 12)
y = (x[:, 0] * x[:, 1] > 0).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 32)
        self.b = nn.Linear(32, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = torch.relu(nn.Linear(32, 32)(h))
        return self.b(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(150):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
