"""fault: sum_instead_of_mean
The squared error of a sequence is summed over batch and time: with this learning rate the updates are far too large.
"""

import torch
from torch import nn

torch.manual_seed(4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(120):
    t = torch.rand(32, 1, 1) * 6 + torch.arange(21).view(1, -1, 1) * 0.3
    wave = torch.sin(t * torch.tensor([1.0, 1.5, 2.0, 0.7]))
    loss = nn.functional.mse_loss(net(wave[:, :-1]), wave[:, 1:], reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
