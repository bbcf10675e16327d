"""fault: exploding_gradient

Twenty-four layers that each enlarge the signal a little.
"""

import torch
from torch import nn

torch.manual_seed(2)
x = torch.randn(400, 16)
y = torch.sin(x[:, :1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(24)])
        for b in self.blocks:
            nn.init.orthogonal_(b.weight, gain=2.2)
        self.out = nn.Linear(16, 1)

    def forward(self, h):
        for b in self.blocks:
            h = torch.relu(b(h))
        return self.out(h)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(60):
    i = torch.randint(0, 400, (40,))
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
