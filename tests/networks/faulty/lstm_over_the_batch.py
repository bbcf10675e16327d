"""fault: batch_and_time_swapped

batch_first is forgotten.
"""

import torch
from torch import nn

torch.manual_seed(14)


class ArrhythmiaNet(nn.Module):
    """Was there an early beat anywhere in the recording?"""

    def __init__(self, leads=3, hidden=32):
        super().__init__()
        self.stem = nn.Linear(leads, 16)
        self.lstm = nn.LSTM(16, hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, x):  # x: recordings, time, leads
        h = torch.tanh(self.stem(x))
        out, _ = self.lstm(h)
        return self.head(out[:, -1])


def recordings(n, length=30):
    x = 0.3 * torch.randn(n, length, 3)
    label = torch.randint(0, 2, (n,))
    when = torch.randint(4, length - 6, (n,))
    for i in range(n):
        bump = 1.5 if label[i] else -1.5
        x[i, when[i] : when[i] + 3, :2] += bump
    return x, label


def batches(x, label, size):
    while True:
        order = torch.randperm(len(x))
        for k in range(0, len(x) - size + 1, size):
            yield x[order[k : k + size]], label[order[k : k + size]]


def main():
    x, label = recordings(1200)
    net = ArrhythmiaNet()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    feed = batches(x, label, 40)
    for step in range(180):
        bx, by = next(feed)
        loss = nn.functional.cross_entropy(net(bx), by)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
    tx, ty = recordings(400)
    with torch.no_grad():
        acc = (net(tx).argmax(1) == ty).float().mean().item()
    print(f"final acc={acc:.3f}")


main()
