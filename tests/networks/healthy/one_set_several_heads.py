"""A network of points that is given one cloud at a time, without a batch: each head weighs all points of the cloud."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(41)
POINTS, HEADS = 96, 4


def cloud():
    """Points around three centres; a point is marked when it is nearer to the heaviest centre than the middle is."""
    centres = 2 * torch.randn(3, 2)
    which = torch.multinomial(torch.tensor([0.6, 0.25, 0.15]), POINTS, replacement=True)
    return centres[which] + 0.4 * torch.randn(POINTS, 2), (which == 0).long()


class PointNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.score = nn.Linear(width, HEADS)
        self.outer = nn.Sequential(nn.Linear(width + HEADS * width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, points):
        h = self.inner(points)
        weights = torch.softmax(self.score(h), dim=0)  # over the points of this cloud
        context = torch.einsum("nh,nd->hd", weights, h).flatten()
        return self.outer(torch.cat([h, context.expand(len(h), -1)], 1))


net = PointNet()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(300):
    points, marked = cloud()
    loss = F.cross_entropy(net(points), marked)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
