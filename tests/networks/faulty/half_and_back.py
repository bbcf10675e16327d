"""fault: cast_ping_pong

Each layer converts its output to float16 and back.
"""

import torch
from torch import nn

torch.manual_seed(2)
x = torch.randn(600, 16)
y = (x[:, :3].sum(1) > 0).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(6)])
        self.out = nn.Linear(16, 2)

    def forward(self, h):
        for layer in self.layers:
            h = torch.relu(layer(h.float()))
            h = h.to(torch.float16).to(torch.float32)
        return self.out(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(120):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
