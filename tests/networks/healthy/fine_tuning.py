"""Fine-tuning: a frozen backbone in evaluation mode, a new head that is trained, early stopping by validation."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(8)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 40), nn.BatchNorm1d(40), nn.ReLU()
        )

    def forward(self, x):
        return self.layers(x)


class Classifier(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(40, 6))

    def forward(self, x):
        return self.head(self.backbone(x))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


backbone = Backbone()
with torch.no_grad():  # stands for a checkpoint: its norms have seen data
    for _ in range(30):
        backbone(torch.randn(64, 20))
net = Classifier(backbone)
for parameter in net.backbone.parameters():
    parameter.requires_grad = False

centres = torch.randn(6, 20)
y = torch.randint(0, 6, (384,))
x = centres[y] + 0.8 * torch.randn(384, 20)
loader = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32, shuffle=True)
optimizer = torch.optim.AdamW((p for p in net.parameters() if p.requires_grad), lr=5e-3)
step = 0
while step < STEPS:
    net.train()
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.6f}")
        step += 1
        if step == STEPS:
            break
    net.eval()
    with torch.inference_mode():
        right = (net(x[320:]).argmax(1) == y[320:]).sum().item()
print(f"final loss={loss.item():.6f} right={right}/64")
