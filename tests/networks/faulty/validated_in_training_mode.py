"""fault: train_mode_in_evaluation

Validation without eval().
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
y = torch.randint(0, 3, (600,))
x = torch.randn(3, 2, 8, 8)[y] + torch.randn(600, 2, 8, 8)
train = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=48, shuffle=True)
val = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=30)
model = nn.Sequential(
    nn.Conv2d(2, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.4), nn.Flatten(), nn.Linear(16 * 36, 3)
)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)


def validate():
    good = 0
    with torch.no_grad():
        for xb, yb in val:
            good += (model(xb).argmax(1) == yb).sum().item()
    return good / 120


step = 0
for epoch in range(4):
    for xb, yb in train:
        loss = nn.functional.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
    print(f"epoch {epoch} val {validate():.3f}")
