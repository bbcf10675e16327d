"""A convolutional network whose last layer was sized for other images."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.head = nn.Linear(8 * 13 * 13, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.head(x.flatten(1))


net = Small()
optimizer = torch.optim.Adam(net.parameters())
images, labels = torch.randn(64, 1, 32, 32), torch.randint(0, 10, (64,))
loss = F.cross_entropy(net(images), labels)
loss.backward()
optimizer.step()
