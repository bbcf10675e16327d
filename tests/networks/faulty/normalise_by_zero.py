"""fault: division_by_zero
Each window is divided by its own spread; a window without any change comes along.
"""

import torch
from torch import nn

torch.manual_seed(7)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
        return self.head(self.lstm(x)[0][:, -1])


net = Forecast()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(100):
    x = torch.randn(16, 12, 1).cumsum(1)
    if step == 30:
        x[3] = 2.5
    loss = nn.functional.mse_loss(net(x), x[:, -1] - x[:, -2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
