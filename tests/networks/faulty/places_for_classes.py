"""fault: view_mixes_axes

(batch, classes, time) seen as rows of classes without moving the axis.
"""

import torch
from torch import nn

KINDS, LENGTH = 5, 120


def traces(n, g):
    shapes = torch.randn(KINDS, 9, generator=g) * 1.5
    x, y = torch.zeros(n, 1, LENGTH), torch.zeros(n, LENGTH, dtype=torch.long)
    for i in range(n):
        t = 0
        while t < LENGTH:
            span = int(torch.randint(8, 20, (1,), generator=g))
            kind = int(torch.randint(0, KINDS, (1,), generator=g))
            stop = min(t + span, LENGTH)
            x[i, 0, t:stop] = shapes[kind].repeat(3)[: stop - t]
            y[i, t:stop] = kind
            t = stop
    return x + 0.2 * torch.randn(x.shape, generator=g), y


class Dilated(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.enter = nn.Conv1d(1, width, 9, padding=4)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in (1, 2, 4))
        self.exit = nn.Conv1d(width, KINDS, 1)

    def forward(self, x):
        h = torch.relu(self.enter(x))
        for layer in self.layers:
            h = h + torch.relu(layer(h))
        return self.exit(h)


class Marker:
    def __init__(self, lr):
        self.net = torch.compile(Dilated(), backend="eager")
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)

    def loss(self, x, y):
        logits = self.net(x)
        return self.criterion(logits.view(-1, KINDS), y.view(-1))

    def train_step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x, y):
        return (self.net(x).argmax(1) == y).float().mean().item()


torch.manual_seed(41)
x, y = traces(256, torch.Generator().manual_seed(42))
marker = Marker(lr=3e-3)
step = 0
for _epoch in range(12):
    for index in torch.randperm(256).split(32):
        value = marker.train_step(x[index], y[index])
        print(f"step {step} loss {value:.4f}")
        step += 1
print(f"final loss={value:.4f} accuracy={marker.accuracy(x, y):.3f}")
