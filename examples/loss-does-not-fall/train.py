"""A classifier whose hidden layers are kept in a plain list."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(20, 64), nn.Linear(64, 64)]
        self.head = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


x = torch.randn(1024, 20)
y = (x[:, 0] > 0).long() + 2 * (x[:, 1] * x[:, 2] > 0).long()
net = Deep()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(150):
    rows = torch.randint(0, 1024, (64,))
    loss = F.cross_entropy(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
