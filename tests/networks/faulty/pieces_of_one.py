"""fault: batchnorm_batch_of_one

Gradients are accumulated over pieces of one sample, and each piece is a batch to batch norm.
"""

import torch
from torch import nn

EFFECTIVE, MICRO = 16, 1


def recordings(n):
    loud = torch.randint(0, 2, (n,))
    tone = torch.sin(torch.arange(200.0) * (0.1 + 0.4 * torch.rand(n, 1)) + 6.28 * torch.rand(n, 1))
    volume = torch.where(loud == 1, 1.6, 0.7).unsqueeze(1) * (0.85 + 0.3 * torch.rand(n, 1))
    return (volume * tone + 0.05 * torch.randn(n, 200)).unsqueeze(1), loud


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 16, 9, stride=2, bias=False)
        self.norm1 = nn.BatchNorm1d(16)
        self.conv2 = nn.Conv1d(16, 32, 9, stride=2, bias=False)
        self.norm2 = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 2)

    def forward(self, wave):
        h = torch.relu(self.norm1(self.conv1(wave)))
        h = torch.relu(self.norm2(self.conv2(h)))
        return self.out(h.amax(2))


def train_step(net, optimizer, wave, label):
    optimizer.zero_grad()
    total = 0.0
    pieces = EFFECTIVE // MICRO
    for piece in range(pieces):
        rows = slice(piece * MICRO, (piece + 1) * MICRO)
        loss = nn.functional.cross_entropy(net(wave[rows]), label[rows]) / pieces
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


torch.manual_seed(113)
net = Listener()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(100):
    loss = train_step(net, optimizer, *recordings(EFFECTIVE))
    print(f"step {step} loss {loss:.4f}")
net.eval()
with torch.no_grad():
    wave, label = recordings(400)
    right = (net(wave).argmax(1) == label).float().mean().item()
print(f"final loss={loss:.4f} accuracy={right:.3f}")
