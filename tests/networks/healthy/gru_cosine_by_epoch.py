"""A recurrent forecast whose cosine schedule is stepped once per epoch."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(23)


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def series(n=48, length=20):
    t = torch.arange(length + 1.0)
    f = 0.2 + 0.5 * torch.rand(n, 1)
    p = 6.28 * torch.rand(n, 1)
    y = torch.sin(f * t + p) + 0.05 * torch.randn(n, length + 1)
    return y[:, :-1, None], y[:, -1:]


EPOCHS, PER_EPOCH = 8, 40
model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
step = 0
for _ in range(EPOCHS):
    for _ in range(PER_EPOCH):
        x, y = series()
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.5f}")
        step += 1
    schedule.step()
print(f"final loss={loss.item():.5f}")
