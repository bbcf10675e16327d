"""A small CNN on noisy shapes, with random flips and shifts, from a shuffled data loader."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(0)
patterns = torch.randn(4, 1, 10, 10)
patterns = (patterns + patterns.flip(-1)) / 2


class Shapes(Dataset):
    def __init__(self, size):
        self.labels = torch.randint(0, 4, (size,))
        self.images = patterns[self.labels] + 0.7 * torch.randn(size, 1, 10, 10)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return torch.roll(image, int(torch.randint(-1, 2, ())), dims=-1), self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.conv2(x)).mean((2, 3))
        return self.head(self.drop(x))


loader = DataLoader(Shapes(320), batch_size=32, shuffle=True)
held_out = DataLoader(Shapes(64), batch_size=64)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
step = 0
while step < STEPS:
    net.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.6f}")
        step += 1
        if step == STEPS:
            break
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in held_out)
print(f"final loss={loss.item():.6f} right={right}/64")
