"""A PyTorch training that writes over its tensors in every way there is; they are large enough to be remembered."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.norm(self.conv(x))
        y += x
        y[:, 0].clamp_(max=1.0)
        y = self.act(y)
        y.data.mul_(0.5)
        filled = torch.zeros_like(x)
        filled.numpy()[:] = 3.0  # nobody is told
        return torch.relu_(y * filled)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Flatten(), nn.Linear(1024, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(6, 4, 16, 16), torch.tensor([0, 1, 2, 0, 1, 2])
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model[3].weight.mul_(0.9)


main()
