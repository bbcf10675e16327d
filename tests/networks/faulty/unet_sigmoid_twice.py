"""fault: sigmoid_before_bce_with_logits
The U-Net ends in a sigmoid and the loss applies another.
"""

import torch
from torch import nn

torch.manual_seed(2)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.up(self.deep(nn.functional.max_pool2d(a, 2)))
        return torch.sigmoid(self.out(torch.cat([a, b], 1)))


net = UNet()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(150):
    mask = (nn.functional.avg_pool2d(torch.randn(8, 1, 12, 12), 5, 1, 2) > 0.1).float()
    x = mask + 0.3 * torch.randn_like(mask)
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
