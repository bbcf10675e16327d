"""Several tasks on one trunk: each step trains one of them, and one head waits for a later stage."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(9)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.classes = nn.Linear(48, 5)
        self.value = nn.Linear(48, 1)
        self.present = nn.Linear(48, 3)
        self.later = nn.Linear(48, 8)

    def forward(self, x, task):
        return getattr(self, task)(self.trunk(x))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
way = torch.randn(16, 9)
tasks = ["classes", "value", "present"]
for step in range(STEPS):
    x = torch.randn(32, 16)
    truth = x @ way
    task = tasks[step % 3]
    out = net(x, task)
    if task == "classes":
        loss = nn.functional.cross_entropy(out, truth[:, :5].argmax(1))
    elif task == "value":
        loss = nn.functional.smooth_l1_loss(out.squeeze(1), torch.sin(truth[:, 5] / 4))
    else:
        loss = nn.functional.binary_cross_entropy_with_logits(out, (truth[:, 6:] > 0).float())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
