"""fault: batchnorm_running_stats_lag

The momentum of another library's batch norm.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(19)
BN_DECAY = 0.9997


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=1 - BN_DECAY)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), norm(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), norm(cout)
        self.short, self.bn3 = nn.Conv2d(cin, cout, 1, stride, bias=False), norm(cout)

    def forward(self, x):
        y = F.silu(self.bn1(self.conv1(x)))
        return F.silu(self.bn2(self.conv2(y)) + self.bn3(self.short(x)))


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 16, 1), Block(16, 24, 2), Block(24, 32, 2))
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean((2, 3)))


def dataset(n=720, classes=4):
    y = torch.randint(0, classes, (n,))
    base = 0.5 * torch.randn(classes, 3, 12, 12)
    x = base[y] + 1.5 * torch.randn(n, 3, 12, 12)
    return TensorDataset(x, y)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    loss, right, seen = 0.0, 0, 0
    for x, y in loader:
        logits = net(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        seen += len(y)
    net.train()
    return loss / seen, right / seen


train_set, valid_set = random_split(dataset(), [560, 160], generator=torch.Generator().manual_seed(0))
train_loader = DataLoader(train_set, batch_size=40, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=80)
net = Net(4)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
step = 0
for epoch in range(6):
    for x, y in train_loader:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
    valid_loss, accuracy = evaluate(net, valid_loader)
    print(f"epoch {epoch} valid loss {valid_loss:.4f} accuracy {accuracy:.3f}")
print(f"final loss={loss.item():.4f} valid={valid_loss:.4f} accuracy={accuracy:.3f}")
